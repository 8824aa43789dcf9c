"""A pytest plug-in: what each test file took, in seconds of wall time and of CPU.

`make test` loads it (`-p tests.support.timing`). Each process that runs tests writes its figures
below PARTITA_TEST_FOLDER; `report` reads all of them and prints the table and the budgets.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Final

import pytest

FOLDER: Final = "PARTITA_TEST_FOLDER"
SLOWEST: Final = 10
# CPU seconds of all tests of a kind, with the processes they started, on a machine that takes
# PROBE_S for the probe. A shared core counts up to twice as many seconds for the same work.
BUDGETS: Final[Mapping[str, float]] = {"pure": 150.0, "service": 1000.0, "real": 2300.0}
PROBE_S: Final = 0.00075
_PROBE_EVERY_S: Final = 2.0
_SAMPLE: Final = [{"name": f"step-{number}", "number": number} for number in range(500)]
# Of `make test-fast` altogether: with imports, collection and what xdist does.
FAST_BUDGET_S: Final = 130.0
_KINDS: Final = (
    ("tests/unit", "pure"),
    ("tests/contracts/sink", "service"),
    ("tests/contracts", "real"),
    ("tests/integration", "real"),
    ("tests/faults", "real"),
)


@dataclass(slots=True)
class Taken:
    """Seconds, and how many tests took them."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    tests: int = 0

    def add(self, other: Taken) -> None:
        self.wall_s += other.wall_s
        self.cpu_s += other.cpu_s
        self.tests += other.tests


def kind_of(path: str) -> str:
    """`pure`, `service` or `real`."""
    return next((kind for folder, kind in _KINDS if path.startswith(f"{folder}/")), "service")


def probe() -> float:
    """Return the CPU seconds of a fixed piece of work: what this core is worth now.

    It computes, uses memory and asks the kernel, as tests do.
    """
    begun, total = time.thread_time(), 0
    for number in range(10_000):
        total += number * number % 7
    json.loads(json.dumps(_SAMPLE))
    for _ in range(100):
        os.stat(__file__)  # noqa: PTH116 - the call alone
    return time.thread_time() - begun


def slowness() -> float:
    """Return how many times slower this core is now than that of the budgets; at least 1."""
    return max(1.0, median(probe() for _ in range(9)) / PROBE_S)


def _cpu_s() -> float:
    """Of this process and of all that it started and waited for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


class _Clock:
    """Counts a test with its set-up, and with what its module's last one tears down."""

    def __init__(self) -> None:
        self.files: dict[str, Taken] = defaultdict(Taken)
        self.probes: list[float] = []
        self._probe_at = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        wall, cpu = time.monotonic(), _cpu_s()
        try:
            return (yield)
        finally:
            path = item.nodeid.partition("::")[0]
            self.files[path].add(Taken(time.monotonic() - wall, _cpu_s() - cpu, 1))
            if time.monotonic() >= self._probe_at:
                self.probes.append(probe())
                self._probe_at = time.monotonic() + _PROBE_EVERY_S

    def pytest_sessionfinish(self) -> None:
        if not self.files:
            return
        folder = Path(os.environ[FOLDER]) / "times"
        folder.mkdir(exist_ok=True)
        rows = [[path, each.wall_s, each.cpu_s, each.tests] for path, each in self.files.items()]
        written = {"files": rows, "probes": self.probes}
        (folder / f"{os.getpid()}-{time.time_ns()}.json").write_text(json.dumps(written))


def pytest_configure(config: pytest.Config) -> None:
    if FOLDER in os.environ:
        config.pluginmanager.register(_Clock())


def read(folder: Path) -> tuple[dict[str, Taken], float]:
    """Return what each file took, and how many times slower than the budgets' machine this was.

    Both are of all processes that wrote below `folder`.
    """
    files: dict[str, Taken] = defaultdict(Taken)
    probes: list[float] = []
    for source in (folder / "times").glob("*.json"):
        written = json.loads(source.read_text())
        probes += written["probes"]
        for path, wall_s, cpu_s, tests in written["files"]:
            files[path].add(Taken(wall_s, cpu_s, tests))
    return files, max(1.0, mean(probes) / PROBE_S) if probes else 1.0


def slowest(files: Mapping[str, Taken]) -> Iterable[str]:
    """The tables of the files that took longest, and of those that computed most."""
    orders: dict[str, Callable[[Taken], float]] = {
        "slowest files": lambda taken: taken.wall_s,
        "files that took most CPU": lambda taken: taken.cpu_s,
    }
    for title, order in orders.items():
        yield f"{'wall s':>8} {'CPU s':>8} {'tests':>6}  the {SLOWEST} {title}"
        ranked = sorted(files.items(), key=lambda each: order(each[1]), reverse=True)
        for path, taken in ranked[:SLOWEST]:
            yield f"{taken.wall_s:8.1f} {taken.cpu_s:8.1f} {taken.tests:6}  {path}"


def over_budget(files: Mapping[str, Taken], slower: float) -> tuple[list[str], list[str]]:
    """A line for each kind, and a sentence for each kind that took more CPU than it may.

    `slower`: how many times slower this machine was than the one of the budgets.
    """
    kinds: dict[str, Taken] = {kind: Taken() for kind in BUDGETS}
    for path, taken in files.items():
        kinds[kind_of(path)].add(taken)
    lines = [
        f"{taken.wall_s:8.1f} {taken.cpu_s:8.1f} {taken.tests:6}  {kind}"
        f" (budget: {BUDGETS[kind]:g} s of CPU × {slower:.2f} for this machine)"
        for kind, taken in kinds.items()
    ]
    failures = [
        f"the {kind} tests took {taken.cpu_s:.0f} s of CPU, budget {BUDGETS[kind] * slower:.0f} s:"
        " make the slowest cheaper, or move what is long to `make faults`"
        for kind, taken in kinds.items()
        if taken.cpu_s > BUDGETS[kind] * slower
    ]
    return lines, failures


def over_fast_budget(cpu_s: float, slower: float) -> tuple[str, list[str]]:
    """A line for `make test-fast`, and a sentence when it took more CPU than it may."""
    budget = FAST_BUDGET_S * slower
    line = (
        f"{cpu_s:.0f} s of CPU with imports and collection"
        f" (budget: {FAST_BUDGET_S:g} s × {slower:.2f} for this machine)"
    )
    failure = (
        f"the fast tests took {cpu_s:.0f} s of CPU, budget {budget:.0f} s:"
        " make the slowest cheaper, or mark what is long as `slow`"
    )
    return line, [failure] if cpu_s > budget else []
