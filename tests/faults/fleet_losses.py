"""Two control planes, runners and workers on PostgreSQL and Redis: each part is lost in turn.

python -m tests.faults.fleet_losses --times 10 --seed 7             needs servers
python -m tests.faults.fleet_losses --times 2 --victim runner-2 --no-publish

Each run of a round is launched at another web process. Each worker knows one of them, the two
runners are on hosts of their own (UTS namespaces, so it needs root), and no two share a folder.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import httpx

from bench.report import end_in_order, publish
from tests.faults.engine_watch import EngineWatch
from tests.faults.rounds import SEED, Json, Row, moments, play_rounds
from tests.support.cluster import SECOND_HOST, Cluster, is_ready
from tests.support.parts import address
from tests.support.processes import until

# the backends of a round's runs: `local` is of both runners, `edge` of both workers
VICTIMS: Final[Mapping[str, Sequence[str]]] = {
    "web": ("local", "edge"),
    "web-2": ("local", "edge"),
    "runner": ("local", "local"),
    "runner-2": ("local", "local"),
    "worker": ("edge", "edge"),
    "worker-2": ("edge", "edge"),
    "celery": ("local", "edge"),
    "redis": ("local", "edge"),
    "postgres": ("local", "edge"),
}
AGENTS: Final[Mapping[str, str]] = {
    "runner": f"runner:{socket.gethostname()}",
    "runner-2": f"runner:{SECOND_HOST}",
    "worker": "worker",
    "worker-2": "worker-2",
}
WHOLE_S: Final = 120.0
COLUMNS: Final = (
    "lost",
    "times",
    "rounds of 2 runs",
    "right",
    "wrong",
    "median s",
    "longest s",
    "runs that had a step there",
)


class Fleet(Cluster):
    """A cluster that has each part twice, but for its servers and Celery."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, parts=("web", "celery", "runner", "worker"))
        self._exits = ExitStack()

    def __enter__(self) -> Fleet:
        super().__enter__()
        try:
            self._double()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        self._exits.close()

    def _double(self) -> None:
        second = self.add_control_plane()
        self._addresses = (self.url, second)
        other = httpx.Client(base_url=f"{second}/api/v1", headers=self.client.headers, timeout=30)
        self._turns = cycle([self.client, self._exits.enter_context(other)])
        self.add("worker-2", "worker", AGENT_CONTROL_PLANE_URL=second)
        self.wait_whole()

    def wait_whole(self) -> None:
        """Wait until both web processes are ready and all supervisors are online."""
        until(
            lambda: all(map(is_ready, self._addresses)) and self._online() == set(AGENTS.values()),
            within_s=WHOLE_S,
            what=lambda: f"the fleet is whole; online: {self._online()}",
        )

    def _online(self) -> set[str]:
        listed = self.get("/agents", status="online").json()["agents"]
        return {each["agentId"] for each in listed}

    def launch(self, suite: str, **body: Any) -> str:
        """Launch at the web process whose turn it is, once the fleet is whole."""
        self.wait_whole()
        answer = next(self._turns).post("/executions", json={"suiteId": suite, **body})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])


def note_held(row: Row, details: Sequence[Json]) -> None:
    """Count the runs that had a step at the victim."""
    agent = AGENTS.get(row.victim)
    row.held += sum(
        any(step.get("agentId", "") == agent for step in each["steps"]) for each in details
    )


def main() -> int:
    end_in_order()
    options = _options()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="partita-fleet-") as folder:
        rows = _rows(Path(folder), options)
    wrong = [sentence for row in rows for sentence in row.wrong]
    if options.publish:
        _publish(rows, options.seed)
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.fleet_losses",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--times", type=int, default=10, help="losses of each part")
    parser.add_argument("--victim", action="append", choices=VICTIMS, help="repeatable; else all")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--no-publish", dest="publish", action="store_false")
    return parser.parse_args()


def _rows(folder: Path, options: argparse.Namespace) -> list[Row]:
    rows = []
    with (
        EngineWatch(address("TEST_DOCKER_HOST"), folder) as watch,
        Fleet(folder / "cluster") as fleet,
    ):
        for victim in options.victim or VICTIMS:
            drawn = moments(victim, options.times, seed=options.seed)
            backends = VICTIMS[victim]
            row = play_rounds(fleet, watch, victim, drawn, backends=backends, note=note_held)
            print(*_cells(row), sep=" | ", flush=True)
            rows.append(row)
    return rows


def _cells(row: Row) -> list[object]:
    return [*row.cells(), row.held if row.victim in AGENTS else ""]


def _publish(rows: Sequence[Row], seed: int) -> None:
    wrong = sum(len(row.wrong) for row in rows)
    publish(
        "fleet_losses",
        "Two web processes, two runners, two remote workers and a Celery worker on PostgreSQL and "
        "Redis; each part is lost in turn at random moments (kill -9; PostgreSQL an immediate "
        "stop) and comes back, two moments in a round of two runs of `shop`, each launched at "
        "another web process. Right: both runs end Healthy, events in the order of the reference, "
        "every container started once, every numbered line once, both streams whole, nothing left.",
        COLUMNS,
        [_cells(row) for row in rows],
        f"Seed {seed}: {'all runs ended right' if not wrong else f'{wrong} rounds ended WRONG'}.",
        command=f".venv/bin/python -m tests.faults.fleet_losses --seed {seed}",
    )


if __name__ == "__main__":
    sys.exit(main())
