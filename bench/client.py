"""`python -m bench client [--quick]`: what the client's commands cost against a real `up`."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.report import end_in_order, is_quick, publish
from bench.stand import ROOT
from tests.support.up import Up

ROUNDS: Final = 7 if is_quick() else 21
RUNS: Final = 3
GOAL_S: Final = 0.15  # of CPU, for `run list`
COLUMNS: Final = ("command", "CPU s", "least CPU s", "times the floor")
FLOOR: Final = "floor: a Python that does nothing"
COMMANDS: Final = {
    FLOOR: ("-c", "pass"),
    "floor: http.client and argparse, imported": ("-c", "import http.client, argparse"),
    "--version": ("partita_program.py", "--version"),
    "run list": ("partita_program.py", "run", "list"),
    "suite list": ("partita_program.py", "suite", "list"),
    "whoami": ("partita_program.py", "whoami"),
}


def cpu_s(words: Sequence[str], environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *words], env=dict(environment), cwd=ROOT, check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(environment: Mapping[str, str]) -> dict[str, list[float]]:
    """Run all commands in turns, so that each meets the same machine; the first turn is dropped."""
    found: dict[str, list[float]] = {title: [] for title in COMMANDS}
    for number in range(ROUNDS + 1):
        for title, words in COMMANDS.items():
            took = cpu_s(words, environment)
            found[title] += [took] if number else []
    return found


def main() -> None:
    end_in_order()
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as name:
        folder = Path(name)
        with Up(folder, UP_DEMO="0", LOCAL_RUNTIME="process") as up:
            for _ in range(RUNS):
                up.wait_for(up.launch("hello"))
            home = {key: up.environment[key] for key in ("PATH", "DATA_DIR")} | {"HOME": name}
            found = measure(home)
    floor = statistics.median(found[FLOOR])
    rows = [
        [title, statistics.median(each), min(each), statistics.median(each) / floor]
        for title, each in found.items()
    ]
    took = statistics.median(found["run list"])
    publish(
        "client",
        f"What the client's commands cost against an `up` on this machine that has {RUNS} runs;"
        f" medians of {ROUNDS} turns with bytecode.",
        COLUMNS,
        rows,
        f"`run list` takes {took:.3f} s of CPU (goal {GOAL_S:g}):"
        f" {'met' if took <= GOAL_S else 'MISSED'}",
    )


if __name__ == "__main__":
    main()
