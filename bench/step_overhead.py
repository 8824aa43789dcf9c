"""What a step costs besides its work: a DAG of 10 levels on a no-op runtime, all of it durable.

The real supervisor, protocol and store, beside the same DAG as Celery chords and as a Prefect flow.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench import stand
from bench.peers.environment import PREFECT_3, NoPeer, peer_python, prefect_settings
from bench.report import publish
from tests.support import servers

LEVELS = 10
WIDTHS = (10, 100)
ROUNDS = {10: 7, 100: 3}  # of the narrow and of the wide DAG
GOAL_MS = 1.5
SCALING = 1.3
SUITE = """load("@partita/runtime", "task")

def dag(levels, width):
    before = []
    for level in range(levels):
        before = [
            task.run("s-%d-%d" % (level, n), image = "none", command = ["true"], after = before)
            for n in range(width)
        ]

dag({levels}, {width})
"""
OURS_ON_POSTGRES = "Partita, PostgreSQL (fsync on)"
OURS_ON_SQLITE = "Partita, SQLite"
CHORDS = "Celery chords, Redis"
PREFECT = "Prefect 3, its server on SQLite"
STORES = {
    OURS_ON_POSTGRES: "states, events, leases, a log line a step",
    OURS_ON_SQLITE: "states, events, leases, a log line a step",
    CHORDS: "nothing beyond Redis",
    PREFECT: "states, a log line a step",
}


class Ours:
    def __init__(self, child: stand.Child) -> None:
        self._child = child

    def seconds(self, width: int) -> float:
        ended = self._child.ask(suite=f"dag-{width}")
        assert ended["status"] == "Healthy", ended
        return float(ended["seconds"])


class Peer:
    def __init__(self, child: stand.Child) -> None:
        self._child = child

    def seconds(self, width: int) -> float:
        return float(self._child.ask(levels=LEVELS, width=width)["seconds"])


@contextmanager
def contenders(folder: Path) -> Iterator[tuple[dict[str, Ours | Peer], list[str]]]:
    """By name, each warmed up; and why some are missing."""
    absent: list[str] = []
    found: dict[str, Ours | Peer] = {}
    with ExitStack() as stack:
        if dsn := stack.enter_context(servers.postgres(folder, durable=True)):
            child = _runner(stack, folder / "on-postgres", dsn["TEST_POSTGRES_DSN"])
            found[OURS_ON_POSTGRES] = Ours(child)
        else:
            absent.append("PostgreSQL is not installed")
        found[OURS_ON_SQLITE] = Ours(_runner(stack, folder / "on-sqlite"))
        if "TEST_REDIS_ADDR" in os.environ:
            command = [sys.executable, "-m", "bench.peers.chords"]
            found[CHORDS] = Peer(_child(stack, command, dict(os.environ), folder / "chords.log"))
        else:
            absent.append("no Redis (TEST_REDIS_ADDR)")
        try:
            command = [str(peer_python("prefect", PREFECT_3)), "bench/peers/prefect_flow.py"]
            settings = prefect_settings(folder / "prefect")
            found[PREFECT] = Peer(_child(stack, command, settings, folder / "prefect.log"))
        except NoPeer as error:
            absent.append(f"Prefect cannot be installed: {error}")
        yield found, absent


def _child(stack: ExitStack, command: list[str], env: dict[str, str], log: Path) -> stand.Child:
    return stack.enter_context(stand.Child(command, env, log))


def _runner(stack: ExitStack, folder: Path, dsn: str = "") -> stand.Child:
    for width in WIDTHS:
        source = SUITE.format(levels=LEVELS, width=width)
        stand.suite(folder / "suites", f"dag-{width}", source)
    settings = stand.environment(folder, dsn=dsn, BENCH_RUNTIME="no-op")
    return stack.enter_context(stand.runner(settings, folder))


def measure(found: dict[str, Ours | Peer]) -> dict[tuple[str, int], list[float]]:
    """Milliseconds a step of each round, by contender and width; the contenders take turns.

    The wide DAG is run by ours only: how its cost grows.
    """
    taken: dict[tuple[str, int], list[float]] = defaultdict(list)
    for width in WIDTHS:
        running = {
            name: each
            for name, each in found.items()
            if width == WIDTHS[0] or isinstance(each, Ours)
        }
        for each in running.values():
            each.seconds(width)  # the first round warms up
        for _ in range(ROUNDS[width]):
            for name, each in running.items():
                taken[name, width].append(each.seconds(width) * 1000 / (LEVELS * width))
    return taken


COLUMNS = ("how", "steps", "ms a step (median)", "best", "worst", "stores durably")


def rows(taken: dict[tuple[str, int], list[float]]) -> list[list[Any]]:
    return [
        [name, LEVELS * width, statistics.median(times), min(times), max(times), STORES[name]]
        for (name, width), times in taken.items()
    ]


def verdict(taken: dict[tuple[str, int], list[float]], absent: list[str]) -> str:
    medians = {key: statistics.median(times) for key, times in taken.items()}
    narrow, wide = WIDTHS
    said = [*absent]
    if ours := medians.get((OURS_ON_POSTGRES, narrow)):
        if chords := medians.get((CHORDS, narrow)):
            said.append(_goal(f"{chords / ours:.1f} times as fast as the chords", chords > ours))
        if prefect := medians.get((PREFECT, narrow)):
            times = prefect / ours
            said.append(_goal(f"{times:.1f} times as fast as Prefect (goal 10)", times >= 10))
        ratio = medians[OURS_ON_POSTGRES, wide] / ours
        said.append(
            _goal(
                f"a step of 1,000 costs {ratio:.2f} of a step of 100 (goal {SCALING})",
                ratio <= SCALING,
            )
        )
        said.append(_goal(f"{ours:.2f} ms a step (aim {GOAL_MS})", ours <= GOAL_MS))
    return "On PostgreSQL: " + "; ".join(said) + "."


def _goal(text: str, met: bool) -> str:  # noqa: FBT001 - private
    return f"{text}: {'met' if met else 'MISSED'}"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as name:
        folder = Path(name)
        with contenders(folder) as (found, absent):
            taken = measure(found)
    publish(
        "step_overhead",
        f"{LEVELS} levels of steps that do nothing, each waiting for the whole level before; wall "
        "time from launch to the commit of the end, at most 16 steps at once everywhere.",
        COLUMNS,
        rows(taken),
        verdict(taken, absent),
    )


if __name__ == "__main__":
    main()
