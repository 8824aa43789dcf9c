"""`python -m bench again [--quick]`: what does one step again cost beside `docker run` of the same?

`up` on Docker runs a suite whose two steps fail; its environment is kept. Each step then runs again
in it, by REST, alternating with `docker run --rm` of the same command in the same image and with
the same limits. From the request until the repeat is over, as the store has it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx

from bench.report import end_in_order, is_quick, publish
from tests.support.up import Up, write_suite

TURNS: Final = 3 if is_quick() else 20
GOAL: Final = 1.2
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


def repeat(client: httpx.Client, run_id: str, step: str) -> float:
    """Return the seconds from the request until the end of the repeat."""
    began = time.perf_counter()
    answer = client.post(f"/executions/{run_id}/repeats", json={"stepId": step})
    assert answer.status_code == 201, answer.text
    address = answer.json()["href"].removeprefix("/api/v1")
    while "finishedAt" not in (found := client.get(address).json()):
        time.sleep(0.01)
    seconds = time.perf_counter() - began
    assert found["exitCode"] == 3, found
    return seconds


def docker_run(command: str) -> float:
    words = ["docker", "run", "--rm", *LIMITS, IMAGE, "sh", "-e", "-c", command]
    began = time.perf_counter()
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == 3, done.stderr
    return time.perf_counter() - began


def alternate(one: Callable[[], float], two: Callable[[], float]) -> tuple[float, float]:
    """Return the medians of both, after one turn of each that does not count."""
    pairs = [(one(), two()) for _ in range(TURNS + 1)][1:]
    first, second = zip(*pairs, strict=True)
    return statistics.median(first), statistics.median(second)


def measure(up: Up) -> list[tuple[Any, ...]]:
    launched = up.json("run", "launch", "kept", "--keep", "30m")
    run_id = up.wait_for(launched["id"])["id"]
    rows = []
    with up.client() as client:
        for name, command in COMMANDS.items():
            ours, floor = alternate(
                lambda name=name: repeat(client, run_id, name),  # type: ignore[misc]
                lambda command=command: docker_run(command),  # type: ignore[misc]
            )
            rows.append((command, ours, floor, ours / floor))
    up.manage("run", "keep", run_id, "--end")
    return rows


def main() -> None:
    end_in_order()
    os.environ.setdefault("DOCKER_HOST", os.environ.get("TEST_DOCKER_HOST", ""))
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as name:
        folder = Path(name)
        write_suite(folder / "suites", "kept", SUITE, {})
        settings = {"SUITES_DIR": str(folder / "suites"), "UP_DEMO": "0", "LOCAL_RUNTIME": "docker"}
        up = Up(folder / "up", **settings, DOCKER_HOST=os.environ["DOCKER_HOST"])
        up.start()
        try:
            rows = measure(up)
        finally:
            up.end()
    worst = max(ratio for *_, ratio in rows)
    publish(
        "again",
        "How long does a step take that runs again in a kept environment, from the request until "
        "it is over, beside `docker run` of the same? Seconds, median of "
        f"{TURNS} turns, alternating.",
        ("command", "again s", "docker run s", "ratio"),
        rows,
        f"At most {worst:.2f} × `docker run` (goal: {GOAL:g} ×): "
        f"{'met' if worst <= GOAL else 'NOT met'}.",
    )
    sys.exit(0 if worst <= GOAL else 1)


if __name__ == "__main__":
    main()
