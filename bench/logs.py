"""Log lines from a container to the store: one run that prints as fast as it can.

The lines are numbers, so that count and sum tell whether one was lost or doubled. Beside it: how
fast a reader of Docker's own log gets the same lines, which is the ceiling.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from bench import stand
from bench.report import publish

LINES = 3_000_000
IMAGE = "busybox:1.36"
GOAL_LINES_PER_S = 50_000
SAMPLE_S = 0.5
FLAT_MB = 30  # what the memory may grow by between the second tenth of the run and its end
SUITE = """load("@partita/runtime", "task")

task.run(
    "printer",
    image = "{image}",
    command = ["seq", "1", "{lines}"],
    timeout = "30m",
    resources = {{"cpu": 2}},
)
"""


class Memory(threading.Thread):
    """Samples the resident memory of a process, in MB, until `stop()`."""

    def __init__(self, process: psutil.Process) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._stopping = threading.Event()
        self.samples: list[float] = []

    def run(self) -> None:
        while not self._stopping.wait(SAMPLE_S):
            self.samples.append(self._process.memory_info().rss / 2**20)

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def growth(self) -> float:
        """From the level after the start to that at the end; peaks included."""
        tenth = max(1, len(self.samples) // 10)
        return max(self.samples[-tenth:]) - statistics.median(self.samples[tenth : 2 * tenth + 1])


def ours(store: str, dsn: str, lines: int) -> tuple[list[Any], bool, float, float]:
    """(row, every line once, lines a second, growth in MB)"""
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as name:
        folder = Path(name)
        stand.suite(folder / "suites", "printer", SUITE.format(image=IMAGE, lines=lines))
        settings = stand.environment(
            folder, dsn=dsn, BENCH_RUNTIME="docker", DOCKER_HOST=stand.docker_host(),
            EXECUTION_LOG_MAX_BYTES=str(8 * 2**30),
        )  # fmt: skip
        with stand.runner(settings, folder) as child:
            memory = Memory(child.process())
            memory.start()
            ended = child.ask(suite="printer")
            memory.stop()
            stored = child.ask(lines=ended["runId"])
        if dsn:
            stand.drop_database(settings, dsn)
    assert ended["status"] == "Healthy", ended
    whole = (stored["count"], stored["sum"]) == (lines, lines * (lines + 1) // 2)
    rate, growth = lines / ended["seconds"], memory.growth()
    row = [f"Partita, {store}", f"{lines:,}", ended["seconds"], f"{rate:,.0f}",
           "yes" if whole else f"NO: {stored['count']:,}", f"{max(memory.samples):.0f}",
           f"{growth:+.0f}"]  # fmt: skip
    return row, whole, rate, growth


def ceiling(lines: int) -> list[Any]:
    """`docker run` whose output is thrown away: what the daemon itself can pass on."""
    command = [
        "docker",
        "-H",
        stand.docker_host(),
        "run",
        "--rm",
        "--log-driver",
        "json-file",
        IMAGE,
    ]
    began = time.perf_counter()
    subprocess.run([*command, "seq", "1", str(lines)], check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    return ["docker run > /dev/null", f"{lines:,}", seconds, f"{lines / seconds:,.0f}", "", "", ""]


def main() -> None:
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else LINES
    rows, verdicts = [ceiling(lines)], []
    stores = {"SQLite": ""}
    if dsn := os.environ.get("TEST_POSTGRES_DSN"):
        stores["PostgreSQL"] = dsn
    for store, address in stores.items():
        row, whole, rate, growth = ours(store, address, lines)
        rows.append(row)
        goals = {
            f"{GOAL_LINES_PER_S:,} lines/s": rate >= GOAL_LINES_PER_S,
            "no line lost or doubled": whole,
            "memory flat": growth <= FLAT_MB,
        }
        said = ", ".join(f"{goal} {'met' if met else 'MISSED'}" for goal, met in goals.items())
        verdicts.append(f"{store}: {said}")
    publish(
        "logs",
        "One run whose container prints numbers as fast as it can (`seq`), from launch to the "
        "commit of the end; memory of the process that reads, masks and stores, sampled each "
        f"{SAMPLE_S} s.",
        ("how", "lines", "s", "lines/s", "whole", "MB at most", "MB grown"),
        rows,
        "; ".join(verdicts),
    )


if __name__ == "__main__":
    main()
