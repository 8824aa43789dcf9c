"""1,000 runs of 8 steps on 20 remote workers and two control planes: throughput and fairness.

python -m bench fleet                   --quick: 40 runs, printed only
python -m bench.fleet --runs 400

Two web processes, two runners, a Celery worker, PostgreSQL with fsync and Redis, as the product
ships them; the workers speak the agent protocol, and their steps do nothing. First all runs are
launched at once, then a fifth of them evenly, at half the rate at which they went.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg

from bench import stand
from bench.fleet_launcher import SUITE
from bench.fleet_workers import BACKEND
from bench.report import end_in_order, is_quick, publish
from tests.support.cluster import SHARED_SECRET, Cluster, is_ready
from tests.support.processes import until

RUNS: Final = 1000
QUICK_RUNS: Final = 40
STEPS: Final = 8
WORKERS: Final = 20
PROCESSES: Final = 2  # that the workers share
ACTIVE: Final = 40  # runs at once
LATE_MS: Final = 100.0
MEDIAN_MS: Final = 20.0
SOURCE: Final = """load("@partita/runtime", "task")

before = []
for level in range(4):
    before = [
        task.run("s-%d-%d" % (level, n), image = "none", command = ["true"], after = before)
        for n in range(2)
    ]
"""
SETTINGS: Final = json.dumps(
    {
        "mode": "hybrid",
        "agents": [
            {"agentId": "local", "name": "Local", "type": "local", "default": True},
            {"agentId": BACKEND, "name": "Edge", "type": "remote-agent"},
        ],
    }
)
COLUMNS: Final = (
    "launched",
    "runs",
    "Healthy",
    "steps/s",
    "ready to leased, p50 ms",
    "p99 ms",
    "ready beside an idle worker, p50 ms",
    "p99 ms",
    "longer than 100 ms",
    "transactions a step",
)


@dataclass(frozen=True, slots=True)
class Load:
    """One load and what it took; `steps` as of the launcher."""

    title: str
    runs: int
    healthy: int
    seconds: float
    steps: Sequence[tuple[str, float, float]]
    transactions: int


class Fleet:
    """The control planes, and the children that launch and work."""

    def __init__(self, cluster: Cluster, folder: Path, stack: ExitStack) -> None:
        self._dsn = cluster.environment["POSTGRES_DSN"]
        urls = [cluster.url, cluster.add_control_plane()]
        until(lambda: is_ready(urls[1]), within_s=120, what=cluster.processes["web-2"].tail)
        self._workers = [
            stand.Child(
                [
                    *(sys.executable, "-m", "bench.fleet_workers"),
                    *(str(folder / f"workers-{number}"), SHARED_SECRET),
                    *(str(WORKERS // PROCESSES), *urls),
                ],
                cluster.environment,
                folder / f"workers-{number}.log",
            )
            for number in range(PROCESSES)
        ]
        for child in self._workers:
            stack.enter_context(child)
        command = [sys.executable, "-m", "bench.fleet_launcher"]
        child = stand.Child(command, cluster.environment, folder / "launcher.log")
        self._launcher = stack.enter_context(child)

    def play(self, title: str, runs: int, a_second: float) -> Load:
        before = self._transactions()
        taken = self._launcher.ask(launch=runs, aSecond=a_second)
        return Load(
            title=title,
            runs=runs,
            healthy=taken["statuses"].get("Healthy", 0),
            seconds=taken["seconds"],
            steps=taken["steps"],
            transactions=self._transactions() - before,
        )

    def claims(self) -> dict[str, tuple[float, float]]:
        """End the workers; return since when the worker of each step was idle, and when it came."""
        return {
            job: (idle, came)
            for child in self._workers
            for job, idle, came in child.finish()["claims"]
        }

    def _transactions(self) -> int:
        query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s"
        name = self._dsn.rpartition("/")[2]
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            row = connection.execute(query, (name,)).fetchone()
        return int(row[0]) if row else 0


@contextmanager
def running_fleet() -> Iterator[Fleet]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="partita-fleet-")))
        stand.suite(folder / "suites", SUITE, SOURCE)
        cluster = stack.enter_context(
            Cluster(
                folder / "cluster",
                environment={"LOCAL_RUNTIME": "process", "EXECUTION_MAX_ACTIVE": str(ACTIVE)},
                suites=[folder / "suites" / SUITE],
                settings=SETTINGS,
            )
        )
        yield Fleet(cluster, folder, stack)


def cells(load: Load, claims: Mapping[str, tuple[float, float]]) -> list[Any]:
    """Return the row of a load; `claims` as of `Fleet.claims`."""
    latency = sorted((leased - ready) * 1000 for _job, ready, leased in load.steps)
    beside = sorted(idle_ms(ready, *claims[job]) for job, ready, _leased in load.steps)
    return [
        load.title,
        load.runs,
        load.healthy,
        round(len(load.steps) / load.seconds, 1),
        *(round(each, 1) for each in (statistics.median(latency), _p99(latency))),
        *(round(each, 1) for each in (statistics.median(beside), _p99(beside))),
        sum(each > LATE_MS for each in beside),
        round(load.transactions / len(load.steps), 1),
    ]


def idle_ms(ready: float, idle_since: float, came: float) -> float:
    """Return how long a step was ready and the worker that got it was idle."""
    return max(0.0, came - max(ready, idle_since)) * 1000


def _p99(ordered: Sequence[float]) -> float:
    return ordered[int(len(ordered) * 0.99)]


def verdict(rows: Sequence[Sequence[Any]]) -> str:
    said = []
    for row in rows:
        is_met = row[8] == 0 and row[6] <= MEDIAN_MS
        said.append(f"{row[0]}: {'met' if is_met else 'MISSED'}")
    goal = f"no step waits beside an idle worker for more than {LATE_MS:g} ms, median {MEDIAN_MS:g}"
    return f"Goal, {goal}: {'; '.join(said)}."


def main() -> int:
    end_in_order()
    parser = argparse.ArgumentParser(prog="python -m bench.fleet")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_RUNS} runs, printed only")
    parser.add_argument("--runs", type=int, default=QUICK_RUNS if is_quick() else RUNS)
    count = parser.parse_args().runs
    with running_fleet() as fleet:
        fleet.play("warm-up", WORKERS, 0)
        flood = fleet.play("all at once", count, 0)
        rate = count / flood.seconds / 2
        paced = fleet.play(f"{rate:.1f} a second", max(count // 5, QUICK_RUNS // 2), rate)
        claims = fleet.claims()
    rows = [cells(load, claims) for load in (flood, paced)]
    publish(
        "fleet",
        f"Runs of {STEPS} steps that do nothing, four levels of two, on {WORKERS} remote workers "
        "of 4 places, two web processes, two runners and a Celery worker; PostgreSQL with fsync, "
        f"Redis, at most {ACTIVE} runs at once. Beside an idle worker: how long a step was ready "
        "while the worker that got it had a place and asked. All share the cores of the machine.",
        COLUMNS,
        rows,
        verdict(rows),
        command=" ".join([".venv/bin/python -m bench.fleet", *sys.argv[1:]]),
    )
    return 0 if all(load.healthy == load.runs for load in (flood, paced)) else 1


if __name__ == "__main__":
    sys.exit(main())
