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
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = "PARTITA_TEST_FOLDER"
SLOWEST: Final = 10
# CPU seconds of all tests of a kind, with the processes they started; the first folder that fits.
BUDGETS: Final[Mapping[str, float]] = {"pure": 180.0, "service": 670.0, "real": 1300.0}
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


def _cpu_s() -> float:
    """Of this process and of all that it started and waited for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


class _Clock:
    """Counts a test with its set-up, and with what its module's last one tears down."""

    def __init__(self) -> None:
        self.files: dict[str, Taken] = defaultdict(Taken)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        wall, cpu = time.monotonic(), _cpu_s()
        try:
            return (yield)
        finally:
            path = item.nodeid.partition("::")[0]
            self.files[path].add(Taken(time.monotonic() - wall, _cpu_s() - cpu, 1))

    def pytest_sessionfinish(self) -> None:
        if not self.files:
            return
        folder = Path(os.environ[FOLDER]) / "times"
        folder.mkdir(exist_ok=True)
        rows = [[path, each.wall_s, each.cpu_s, each.tests] for path, each in self.files.items()]
        (folder / f"{os.getpid()}-{time.time_ns()}.json").write_text(json.dumps(rows))


def pytest_configure(config: pytest.Config) -> None:
    if FOLDER in os.environ:
        config.pluginmanager.register(_Clock())


def read(folder: Path) -> dict[str, Taken]:
    """By file; of all processes that wrote below `folder`."""
    files: dict[str, Taken] = defaultdict(Taken)
    for source in (folder / "times").glob("*.json"):
        for path, wall_s, cpu_s, tests in json.loads(source.read_text()):
            files[path].add(Taken(wall_s, cpu_s, tests))
    return files


def slowest(files: Mapping[str, Taken]) -> Iterable[str]:
    """The table of the files that took longest."""
    yield f"{'wall s':>8} {'CPU s':>8} {'tests':>6}  the {SLOWEST} slowest files"
    ranked = sorted(files.items(), key=lambda each: each[1].wall_s, reverse=True)
    for path, taken in ranked[:SLOWEST]:
        yield f"{taken.wall_s:8.1f} {taken.cpu_s:8.1f} {taken.tests:6}  {path}"


def over_budget(files: Mapping[str, Taken]) -> tuple[list[str], list[str]]:
    """A line for each kind, and a sentence for each kind that took more CPU than it may."""
    kinds: dict[str, Taken] = {kind: Taken() for kind in BUDGETS}
    for path, taken in files.items():
        kinds[kind_of(path)].add(taken)
    lines = [
        f"{taken.wall_s:8.1f} {taken.cpu_s:8.1f} {taken.tests:6}  {kind}"
        f" (budget: {BUDGETS[kind]:g} s of CPU)"
        for kind, taken in kinds.items()
    ]
    failures = [
        f"the {kind} tests took {taken.cpu_s:.0f} s of CPU, budget {BUDGETS[kind]:g} s:"
        " make the slowest cheaper, or move what is long to `make faults`"
        for kind, taken in kinds.items()
        if taken.cpu_s > BUDGETS[kind]
    ]
    return lines, failures


def over_fast_budget(cpu_s: float) -> tuple[str, list[str]]:
    """A line for `make test-fast`, and a sentence when it took more CPU than it may."""
    line = f"{cpu_s:.0f} s of CPU with imports and collection (budget: {FAST_BUDGET_S:g} s)"
    failure = (
        f"the fast tests took {cpu_s:.0f} s of CPU, budget {FAST_BUDGET_S:g} s:"
        " make the slowest cheaper, or mark what is long as `slow`"
    )
    return line, [failure] if cpu_s > FAST_BUDGET_S else []
