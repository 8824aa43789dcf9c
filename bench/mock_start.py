"""`python -m bench mock_start [--quick]`: what `mock serve` costs until its first answer."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import psutil

from bench import mock_api
from bench.report import end_in_order, is_quick, publish
from bench.stand import ROOT

ROUNDS: Final = 3 if is_quick() else 11
OPERATIONS: Final = 20
GOAL_S: Final = 0.4  # of CPU
PYTHON: Final = sys.executable
COLUMNS: Final = ("start", "s", "CPU s", "times the floor")
Cost = tuple[float, float]  # wall and CPU, in seconds


def serve(words: list[str]) -> Cost:
    """Start a server, and call it once; return what that took it, its imports included."""
    began = time.perf_counter()
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        surface = json.loads(process.stdout.readline())["surfaces"][0]["url"]
        with urlopen(f"{surface}/{mock_api.resources(OPERATIONS)[0]}/8") as answer:
            assert answer.status == 200
        took = time.perf_counter() - began
        times = psutil.Process(process.pid).cpu_times()
        process.send_signal(signal.SIGTERM)
    return took, times.user + times.system


def run(words: list[str]) -> Cost:
    began = time.perf_counter()
    process = subprocess.Popen(words, cwd=ROOT)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return time.perf_counter() - began, used.ru_utime + used.ru_stime


def medians(ways: dict[str, Callable[[], Cost]]) -> dict[str, Cost]:
    """Measure the ways in turns, after a first one that only warms caches."""
    rounds = [{name: way() for name, way in ways.items()} for _ in range(ROUNDS + 1)][1:]
    return {
        name: (
            statistics.median(each[name][0] for each in rounds),
            statistics.median(each[name][1] for each in rounds),
        )
        for name in ways
    }


def main() -> None:
    end_in_order()
    floor, ours = "floor: `import uvicorn`", "partita-mock openapi.json"
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as folder:
        contract = Path(folder, "openapi.json")
        contract.write_text(json.dumps(mock_api.openapi(OPERATIONS)))
        options = [str(contract), "--port", "0", "-o", "json"]
        found = medians(
            {
                "python -c pass": partial(run, [PYTHON, "-c", "pass"]),
                floor: partial(run, [PYTHON, "-c", "import uvicorn"]),
                ours: partial(serve, [PYTHON, "-m", "partita_mock", *options]),
                "partita mock serve openapi.json": partial(
                    serve, [PYTHON, "manage.py", "mock", "serve", *options]
                ),
            }
        )
    rows = [[name, *cost, cost[1] / found[floor][1]] for name, cost in found.items()]
    cpu = found[ours][1]
    publish(
        "mock_start",
        f"From the start of the process to the first answer of a contract of {OPERATIONS}"
        f" operations, bytecode there; medians of {ROUNDS}, in turns.",
        COLUMNS,
        rows,
        f"partita-mock takes {cpu:.2f} s of CPU (goal under {GOAL_S:g}):"
        f" {'met' if cpu < GOAL_S else 'MISSED'}",
    )


if __name__ == "__main__":
    main()
