"""`python -m bench start_ahead [--quick]`: what does a container step cost over its own time?

A chain of steps on a real engine, each after the one before, with containers that are started ahead
(START_AHEAD) and without. What a step costs is the time from the end of the step before until its
own end, as the control plane has them, less its own time. Beside it, in turns: `docker run` with
the same network, volumes and limits, and `docker exec` in a container that runs already, which is
what no start at all costs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench import stand
from bench.docker_steps import options_of_a_step
from bench.report import end_in_order, is_quick, publish
from bench.step_chains import IMAGE, Way, partita

CHAIN = 4 if is_quick() else 10
ROUNDS = 1 if is_quick() else 3
OWN_S = (0, 1)
AHEAD = (0, 2)
GOAL_S = 0.3


@contextmanager
def docker_floors() -> Iterator[tuple[Way, Way]]:
    """Provide `docker run`, and `docker exec` in a container that runs."""
    docker, name = ["docker", "-H", stand.docker_host()], "partita-bench-ahead"

    def call(*words: str) -> str:
        done = subprocess.run([*docker, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    call("network", "create", name)
    call("volume", "create", name)
    options = options_of_a_step(name, name, "step")
    warm = call("run", "-d", *options, IMAGE, "sleep", "3600")
    try:
        yield (
            _in_turn(lambda own: call("run", "--rm", *options, IMAGE, "sleep", own)),
            _in_turn(lambda own: call("exec", warm, "sleep", own)),
        )
    finally:
        call("rm", "-f", warm)
        call("network", "rm", name)
        call("volume", "rm", name)


def _in_turn(run: Callable[[str], object]) -> Way:
    def measure(own_s: int) -> list[float]:
        taken = []
        for _ in range(CHAIN - 1):
            began = time.perf_counter()
            run(str(own_s))
            taken.append(time.perf_counter() - began)
        return taken

    return measure


def measure() -> list[list[object]]:
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as name, ExitStack() as open_ways:
        ways: dict[str, Way] = {
            f"Partita, START_AHEAD={ahead}": open_ways.enter_context(
                partita(
                    Path(name) / str(ahead),
                    ahead,
                    dict.fromkeys(OWN_S, CHAIN),
                    'command = ["sleep", "{own}"]',
                    DOCKER_HOST=stand.docker_host(),
                    BENCH_RUNTIME="docker",
                )
            )
            for ahead in AHEAD
        }
        run, inside = open_ways.enter_context(docker_floors())
        ways |= {"docker run, same options": run, "docker exec, no start": inside}
        for way in ways.values():
            way(OWN_S[0])  # the first round warms up
        rows: list[list[object]] = []
        for own_s in OWN_S:
            over: dict[str, list[float]] = {how: [] for how in ways}
            for _ in range(ROUNDS):
                for how, way in ways.items():
                    over[how] += [each - own_s for each in way(own_s)]
            rows += [
                [how, own_s, statistics.median(each), min(each), max(each)]
                for how, each in over.items()
            ]
    return rows


def main() -> None:
    end_in_order()
    before = os.getloadavg()[0]
    rows = measure()
    load = f"The machine had a load of {before:.0f} before and of {os.getloadavg()[0]:.0f} after."
    reached = {(row[0], row[1]): float(str(row[2])) for row in rows}
    best = reached[f"Partita, START_AHEAD={AHEAD[-1]}", OWN_S[-1]]
    verdict = "met" if best <= GOAL_S else "NOT met"
    publish(
        "start_ahead",
        f"What does a step of {IMAGE} `sleep` cost over its own time, in a chain of {CHAIN} on one "
        "engine? Seconds from the end of the step before to its own end, less its own time.",
        ("how", "own time s", "s over it (median)", "best", "worst"),
        rows,
        f"A step of {OWN_S[-1]} s costs {best:.2f} s over its own time with START_AHEAD="
        f"{AHEAD[-1]} (goal: {GOAL_S:g} s): {verdict}. {load}",
    )
    sys.exit(0 if best <= GOAL_S else 1)


if __name__ == "__main__":
    main()
