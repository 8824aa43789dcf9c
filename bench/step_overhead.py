"""What a step costs besides its work: a DAG of 10 levels on a no-op runtime, all of it durable.

The real supervisor, protocol and store, beside the same DAG as a DBOS workflow, as Celery chords
and as a Prefect flow; ours and DBOS also beside processes that keep the cores busy.

python -m bench step_overhead            --quick: ours and DBOS on PostgreSQL, fewer rounds
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from bench import stand
from bench.peers.environment import DBOS_2, PREFECT_3, NoPeer, peer_python, prefect_settings
from bench.report import is_quick, publish
from tests.support import servers

LEVELS = 10
WIDTHS = (10, 100)
ROUNDS = {10: 7, 100: 3}  # of the narrow and of the wide DAG
GOAL_MS = 1.5
SCALING = 1.3
BUSY = 10  # processes that only count
OF_DBOS = {10: 1.0, 100: 0.6}  # of its time a step, at most
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
DBOS = "DBOS 2, PostgreSQL (fsync on)"
CHORDS = "Celery chords, Redis"
PREFECT = "Prefect 3, its server on SQLite"
STORES = {
    OURS_ON_POSTGRES: "states, events, leases, a log line a step",
    OURS_ON_SQLITE: "states, events, leases, a log line a step",
    DBOS: "what each step returned",
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


@dataclass(frozen=True, slots=True)
class Contenders:
    """By name, and why some are missing; their processes end with `stack`."""

    stack: ExitStack
    folder: Path
    found: dict[str, Ours | Peer] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)

    def add_on_postgres(self) -> None:
        if server := self.stack.enter_context(servers.postgres(self.folder, durable=True)):
            dsn = server["TEST_POSTGRES_DSN"]
            self.found[OURS_ON_POSTGRES] = Ours(
                _runner(self.stack, self.folder / "on-postgres", dsn)
            )
            settings = dict(os.environ) | {"DBOS_URL": f"{dsn.rpartition('/')[0]}/dbos"}
            self._add_installed(DBOS, DBOS_2, "dbos_workflow", settings)
        else:
            self.absent.append("PostgreSQL is not installed")

    def add_others(self) -> None:
        """Add those that run on a quiet machine alone."""
        self.found[OURS_ON_SQLITE] = Ours(_runner(self.stack, self.folder / "on-sqlite"))
        if "TEST_REDIS_ADDR" in os.environ:
            command = [sys.executable, "-m", "bench.peers.chords"]
            self._add_peer(CHORDS, command, dict(os.environ))
        else:
            self.absent.append("no Redis (TEST_REDIS_ADDR)")
        settings = prefect_settings(self.folder / "prefect")
        self._add_installed(PREFECT, PREFECT_3, "prefect_flow", settings)

    def _add_installed(
        self, name: str, packages: tuple[str, ...], script: str, settings: dict[str, str]
    ) -> None:
        """Add the peer of `bench/peers/<script>.py`, or why it is absent."""
        try:
            python = peer_python(script.partition("_")[0], packages)
            self._add_peer(name, [str(python), f"bench/peers/{script}.py"], settings)
        except NoPeer as error:
            self.absent.append(f"{name} cannot be installed: {error}")

    def _add_peer(self, name: str, command: list[str], settings: dict[str, str]) -> None:
        log = self.folder / f"peer-{len(self.found)}.log"
        self.found[name] = Peer(_child(self.stack, command, settings, log))


@contextmanager
def contenders(folder: Path) -> Iterator[tuple[dict[str, Ours | Peer], list[str]]]:
    """By name; and why some are missing."""
    with ExitStack() as stack:
        all_of_them = Contenders(stack, folder)
        all_of_them.add_on_postgres()
        if not is_quick():
            all_of_them.add_others()
        yield all_of_them.found, all_of_them.absent


def _child(stack: ExitStack, command: list[str], env: dict[str, str], log: Path) -> stand.Child:
    return stack.enter_context(stand.Child(command, env, log))


def _runner(stack: ExitStack, folder: Path, dsn: str = "") -> stand.Child:
    for width in WIDTHS:
        source = SUITE.format(levels=LEVELS, width=width)
        stand.suite(folder / "suites", f"dag-{width}", source)
    settings = stand.environment(folder, dsn=dsn, BENCH_RUNTIME="no-op")
    return stack.enter_context(stand.runner(settings, folder))


Taken = dict[tuple[str, int, int], list[float]]  # by contender, width and busy processes: ms


def measure(found: dict[str, Ours | Peer]) -> Taken:
    """Milliseconds a step of each round, by contender, width and load; contenders take turns.

    The wide DAG, and the busy machine, are of ours and DBOS only: how their cost grows.
    """
    taken: Taken = defaultdict(list)
    for busy, width in product((0, BUSY), WIDTHS):
        lasting = [OURS_ON_POSTGRES, DBOS, *([] if busy else [OURS_ON_SQLITE])]
        names = list(found) if (busy, width) == (0, WIDTHS[0]) else lasting
        running = {name: found[name] for name in names if name in found}
        with stand.busy_processes(busy):
            for each in running.values():
                each.seconds(width)  # the first round warms up
            for _ in range(3 if is_quick() else ROUNDS[width]):
                for name, each in running.items():
                    ms = each.seconds(width) * 1000 / (LEVELS * width)
                    taken[name, width, busy].append(ms)
    return taken


COLUMNS = (
    "how",
    "steps",
    "busy processes",
    "ms a step (median)",
    "best",
    "worst",
    "stores durably",
)


def rows(taken: Taken) -> list[list[Any]]:
    return [
        [name, LEVELS * width, busy, statistics.median(times), min(times), max(times), STORES[name]]
        for (name, width, busy), times in taken.items()
    ]


def verdict(taken: Taken, absent: list[str]) -> str:
    medians = {key: statistics.median(times) for key, times in taken.items()}
    narrow, wide = WIDTHS
    said = [*absent]
    if ours := medians.get((OURS_ON_POSTGRES, narrow, 0)):
        for busy, width in product((0, BUSY), WIDTHS):
            if dbos := medians.get((DBOS, width, busy)):
                part, goal = medians[OURS_ON_POSTGRES, width, busy] / dbos, OF_DBOS[width]
                load = f" beside {busy} busy processes" if busy else ""
                text = f"{part:.2f} of DBOS at {LEVELS} × {width}{load} (goal {goal})"
                said.append(_goal(text, part <= goal))
        if chords := medians.get((CHORDS, narrow, 0)):
            said.append(_goal(f"{chords / ours:.1f} times as fast as the chords", chords > ours))
        if prefect := medians.get((PREFECT, narrow, 0)):
            times = prefect / ours
            said.append(_goal(f"{times:.1f} times as fast as Prefect (goal 10)", times >= 10))
        ratio = medians[OURS_ON_POSTGRES, wide, 0] / ours
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
