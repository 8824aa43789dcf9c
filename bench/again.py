"""`python -m bench again [--quick]`: what does one step again cost beside `docker run` of the same?

`up` on Docker runs a suite whose two steps fail; its environment is kept. Each step then runs again
in it, by REST, in turns with `docker run --rm` of the same command in the same image: once on the
engine's default network with the same limits only, once with all that a step has (its network, its
volumes, no rights). Ours is from the request until a reader of its log is told of the end.

A pause after each turn keeps what is done after an end (the earlier container is removed, the next
one made ready) out of the turn of the other.
"""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from bench.docker_steps import options_of_a_step
from bench.report import end_in_order, is_quick, publish
from tests.support.sse import recorded
from tests.support.up import Up, write_suite

TURNS: Final = 3 if is_quick() else 20
GOAL: Final = 1.2
PAUSE_S: Final = 1.0
IMAGE: Final = "busybox:1.36"
COMMANDS: Final = {"nothing": "exit 3", "work": "sleep 1; exit 3"}
SUITE: Final = "\n".join(
    [
        'load("@partita/runtime", "task")',
        *(
            f'task.run(name = "{name}", image = "{IMAGE}", commands = ["{command}"], '
            "continue_on_failure = True)"
            for name, command in COMMANDS.items()
        ),
        f'task.run(name = "last", image = "{IMAGE}", commands = ["exit 3"])',
    ]
)
LIMITS: Final = ["--memory", "512m", "--cpus", "1", "--pids-limit", "256", "--init"]


def repeat(client: httpx.Client, run_id: str, step: str, command: str = "") -> float:
    """Return the seconds from the request until the log of the repeat has ended."""
    began = time.perf_counter()
    body = {"stepId": step, "command": command}
    answer = client.post(f"/executions/{run_id}/repeats", json=body)
    assert answer.status_code == 201, answer.text
    address = answer.json()["href"].removeprefix("/api/v1")
    recorded(client, f"{address}/logs")
    seconds = time.perf_counter() - began
    found = client.get(address).json()
    assert found["exitCode"] == 3, found
    return seconds


def docker_run(options: list[str], command: str) -> float:
    words = ["docker", "run", "--rm", *options, IMAGE, "sh", "-e", "-c", command]
    began = time.perf_counter()
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == 3, done.stderr
    return time.perf_counter() - began


@contextmanager
def same_options() -> Iterator[list[str]]:
    """Provide the options of a step, with a network and a volume for them."""
    name = "partita-bench-again"
    for kind in ("network", "volume"):
        subprocess.run(["docker", kind, "create", name], check=True, capture_output=True)
    try:
        yield options_of_a_step(name, name, "step")
    finally:
        for kind in ("network", "volume"):
            subprocess.run(["docker", kind, "rm", name], check=False, capture_output=True)


def take_turns(*ways: Callable[[], float]) -> list[float]:
    """Return the medians, after one turn of each that does not count."""
    turns: list[list[float]] = []
    for _ in range(TURNS + 1):
        turns.append([])
        for way in ways:
            turns[-1].append(way())
            time.sleep(PAUSE_S)
    return [statistics.median(each) for each in zip(*turns[1:], strict=True)]


def measure(up: Up, options: list[str]) -> Iterator[tuple[Any, ...]]:
    launched = up.json("run", "launch", "kept", "--keep", "60m")
    run_id = up.wait_for(launched["id"])["id"]
    numbers = itertools.count()
    with up.client() as client:
        cases: dict[str, tuple[str, Callable[[], float]]] = {
            command: (command, lambda name=name: repeat(client, run_id, name))  # type: ignore[misc]
            for name, command in COMMANDS.items()
        }
        cases["exit 3, another command each time"] = (
            "exit 3",
            lambda: repeat(client, run_id, "nothing", f": {next(numbers)}; exit 3"),
        )
        for title, (command, ours) in cases.items():
            again, plain, same = take_turns(
                ours,
                lambda command=command: docker_run(LIMITS, command),  # type: ignore[misc]
                lambda command=command: docker_run(options, command),  # type: ignore[misc]
            )
            yield title, again, plain, again / plain, same, again / same
    up.partita("run", "keep", run_id, "--end")


def main() -> None:
    end_in_order()
    os.environ.setdefault("DOCKER_HOST", os.environ.get("TEST_DOCKER_HOST", ""))
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as name, same_options() as options:
        folder = Path(name)
        write_suite(folder / "suites", "kept", SUITE, {})
        settings = {"SUITES_DIR": str(folder / "suites"), "UP_DEMO": "0", "LOCAL_RUNTIME": "docker"}
        up = Up(folder / "up", **settings, DOCKER_HOST=os.environ["DOCKER_HOST"])
        up.start()
        try:
            rows = list(measure(up, options))
        finally:
            up.end()
    plain, same = max(row[3] for row in rows), max(row[5] for row in rows)
    publish(
        "again",
        "How long does a step take that runs again in a kept environment, from the request until "
        "a reader of its log is told of its end? Beside it `docker run --rm` of the same command: "
        "with the same limits alone, and with all that a step has (a network of its own, two "
        "volumes, no rights, a name for the host), but without its files. Seconds, median of "
        f"{TURNS} turns, one after the other.",
        ("command", "again s", "docker run s", "ratio", "docker run, same options s", "ratio"),
        rows,
        f"At most {same:.2f} × `docker run` with the same options (goal: {GOAL:g} ×): "
        f"{_verdict(same)}; at most {plain:.2f} × `docker run` with the limits alone: "
        f"{_verdict(plain)}.",
    )
    sys.exit(0 if same <= GOAL else 1)


def _verdict(ratio: float) -> str:
    return "met" if ratio <= GOAL else "NOT met"


if __name__ == "__main__":
    main()
