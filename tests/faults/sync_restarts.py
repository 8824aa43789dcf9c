"""A server or process of the sync is restarted, *then* something changes: is the change in force?

python -m tests.faults.sync_restarts                  20 restarts of each; needs TEST_REDIS_ADDR
python -m tests.faults.sync_restarts --times 2 --what store --no-publish

Gateway, orchestrator, Celery worker and watcher are processes; store and broker are servers of
their own. A push must reach its destination, a change by hand in the destination must be healed,
and what was delivered while the orchestrator was away must be sent again or taken soon after.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import psycopg

from bench.report import end_in_order, publish
from tests.faults.broker import Broker
from tests.faults.restarts import COLUMNS, IN_FORCE_S, PATIENCE_S, Outcome
from tests.faults.rounds import SEED
from tests.faults.sync_git import GONE, MAIN, BareRepository
from tests.faults.sync_processes import SyncProcesses
from tests.support import servers
from tests.support.git_server import HttpGit, served
from tests.support.parts import address
from tests.support.processes import Process, until

WHAT: Final = ("store", "broker", "orchestrator", "worker", "watcher")
BACK_S: Final = 3.0  # an orchestrator that was killed is away


class Store:
    """A PostgreSQL of its own, restarted at will."""

    def __init__(self, folder: Path) -> None:
        self.port = servers.free_port()
        command = servers.postgres_command(folder, self.port)
        assert command, "PostgreSQL is not installed"
        self.dsn = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        owner = servers.postgres_owner()
        self.process = Process("store", command, {}, folder / "store.log", user=owner)

    def __enter__(self) -> Store:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.end()

    def start(self) -> None:
        self.process.start()
        until(self._answers, within_s=PATIENCE_S, what=self.process.tail)

    def restart(self) -> None:
        """As an administrator does: an orderly stop, and back at once."""
        self.process.kill(signal.SIGINT)
        self.start()

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.dsn, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


@dataclass
class SyncSite:
    """The stack, and the changes that can be made to it."""

    stack: SyncProcesses
    store: Store
    broker: Broker
    git: Path
    deliveries: int = 0

    def begin(self, name: str) -> None:
        """Go on with a new repository, and wait until its destination holds its first commit.

        One that drifts again and again would be healed after longer and longer pauses.
        """
        self._name = f"acme/{name}"
        self.place = f"{self.stack.prefix}-{name}-production"
        self.repository = BareRepository(self.git, self._name)
        until(self.push(0), within_s=PATIENCE_S, what=self.stack.tails)

    def restart(self, what: str) -> None:
        if what == "store":
            self.store.restart()
        elif what == "broker":
            self.broker.stop()
            self.broker.start()
        else:
            found = {
                "orchestrator": self.stack.orchestrator,
                "worker": self.stack.workers[0],
                "watcher": self.stack.watcher,
            }[what]
            found.stop(within_s=PATIENCE_S)  # as an administrator does; `make faults` kills
            found.start()
        until(self._is_ready, within_s=PATIENCE_S, what=self.stack.tails)
        if what in ("worker", "watcher"):  # until it works at all, which its start takes
            measured = self._name, self.place, self.repository
            self.begin(f"start-{self.deliveries}")
            until(self.drift(1), within_s=PATIENCE_S, what=self.stack.tails)
            self._name, self.place, self.repository = measured

    def push(self, number: int) -> Callable[[], bool]:
        """A commit and its webhook; in force when the destination holds it."""
        self.commit(number)
        answer = self.deliver()
        assert answer is not None, "the gateway is away"
        assert answer.status_code == httpx.codes.ACCEPTED, answer.text
        return lambda: self._live("k1") == f"value {number}"

    def drift(self, number: int) -> Callable[[], bool]:
        """Somebody changes a key of ours; in force when it is healed.

        No task is under way meanwhile: one that reads back what it wrote would heal it itself.
        """
        until(self._is_idle, within_s=PATIENCE_S, what=self.stack.tails)
        wanted = self._live("k2")
        self.stack.redis.hset(self.place, "k2", f"drifted {number}")
        return lambda: self._live("k2") == wanted

    def commit(self, number: int) -> None:
        before = self.repository.heads.get(MAIN, GONE)
        text = json.dumps({"k1": f"value {number}", "k2": "stays"})
        after = self.repository.commit(MAIN, {"app.json": text})
        repository = {"full_name": self._name}
        self._body = {"ref": MAIN, "before": before, "after": after, "repository": repository}

    def deliver(self) -> httpx.Response | None:
        """The newest commit, as a delivery of its own."""
        self.deliveries += 1
        return self.stack.send(self._body, f"delivery-{self.deliveries}")

    def _live(self, key: str) -> str | None:
        found = self.stack.redis.hget(self.place, key)
        return None if found is None else str(found)

    def _is_idle(self) -> bool:
        found = [self.stack.get("tasks", state=state) for state in ("RUNNING", "PENDING")]
        return all(page is not None and not page["tasks"] for page in found)

    def _is_ready(self) -> bool:
        return self.stack.get("tasks") is not None and self.stack.answers()


@contextmanager
def installed_sync(folder: Path, *, breaker_open: str = "30s") -> Iterator[SyncSite]:
    git = folder / "git"
    (git / "acme").mkdir(parents=True)
    site = HttpGit(git)
    with (
        served(site),
        Broker(folder) as broker,
        Store(folder) as store,
        SyncProcesses(
            folder,
            f"http://127.0.0.1:{site.port}",
            address("TEST_REDIS_ADDR"),
            workers=1,
            broker_url=broker.url,
            dsn=store.dsn,
            POLL_INTERVAL="1s",
            GATEWAY_BREAKER_OPEN=breaker_open,
        ) as stack,
    ):
        made = SyncSite(stack, store, broker, git)
        made.begin("restarts")
        yield made


def restart_and_sync(
    site: SyncSite, what: str, times: int, chance: random.Random, *, first: int = 1
) -> list[Outcome]:
    """Restart it and make every change, in another order each time."""
    changes = {"push": site.push, "drift": site.drift}
    outcomes = {name: Outcome(what, name) for name in changes}
    for number in range(first, first + times):
        site.begin(f"restarts-{number}")
        site.restart(what)
        for name in chance.sample(sorted(changes), len(changes)):
            try:
                is_in_force = changes[name](number)
                began = time.monotonic()
                until(is_in_force, within_s=PATIENCE_S, what=f"{name} {number}", each_s=0.05)
            except (AssertionError, httpx.HTTPError) as error:
                outcomes[name].wrong.append(f"{what}, {name} {number}: {error}")
            else:
                outcomes[name].seconds.append(time.monotonic() - began)
    return list(outcomes.values())


@dataclass(slots=True)
class Absence:
    """Answers to deliveries, by the seconds since the orchestrator was ready again."""

    during: list[int] = field(default_factory=list)
    refused_until_s: float = 0.0


def kill_orchestrator(site: SyncSite, number: int) -> Absence:
    """kill -9, back after BACK_S, a delivery every half second meanwhile and until one is taken.

    The breaker of the gateway opens; it must not stay open for its 30 s.
    """
    absence = Absence()
    site.commit(number)
    site.stack.orchestrator.kill()
    began = time.monotonic()
    while time.monotonic() - began < BACK_S or len(absence.during) < 8:
        answer = site.deliver()
        absence.during.append(answer.status_code if answer else 0)
        time.sleep(0.2)
    site.stack.orchestrator.start()
    until(lambda: site.stack.get("tasks") is not None, within_s=PATIENCE_S, what=site.stack.tails)
    back = time.monotonic()

    def is_taken() -> bool:
        answer = site.deliver()
        return answer is not None and answer.status_code == httpx.codes.ACCEPTED

    until(is_taken, within_s=PATIENCE_S, what=site.stack.tails, each_s=0.2)
    absence.refused_until_s = time.monotonic() - back
    return absence


def main() -> int:
    end_in_order()
    options = _options()
    print(f"seed {options.seed}", flush=True)
    chance = random.Random(options.seed)
    outcomes: list[Outcome] = []
    with (
        tempfile.TemporaryDirectory(prefix="partita-sync-restarts-") as folder,
        installed_sync(Path(folder)) as site,
    ):
        number = 1
        for what in options.what:
            outcomes += restart_and_sync(site, what, options.times, chance, first=number)
            number += options.times
            print(*(" | ".join(map(str, each.cells())) for each in outcomes), sep="\n", flush=True)
        refusals = Outcome("orchestrator, kill -9", "delivery taken again")
        for _ in range(max(1, options.times // 4)):
            refusals.seconds.append(kill_orchestrator(site, number).refused_until_s)
            number += 1
        outcomes.append(refusals)
    late = sum(each.late + len(each.wrong) for each in outcomes)
    print(*(sentence for each in outcomes for sentence in each.wrong), sep="\n", flush=True)
    rows = [each.cells() for each in outcomes]
    print(*(" | ".join(map(str, row)) for row in rows), sep="\n", flush=True)
    if options.publish:
        publish(
            "sync_restarts",
            f"A server or process of the sync is restarted, then a commit is pushed or somebody "
            f"changes a destination by hand; late: not in force within {IN_FORCE_S:g} s. Last row: "
            f"the orchestrator is killed and away for {BACK_S:g} s under deliveries; seconds from "
            f"its return until one is taken (the breaker's pause is 30 s).",
            COLUMNS,
            rows,
            f"Seed {options.seed}: {late} late.",
            command=" ".join([".venv/bin/python -m tests.faults.sync_restarts", *sys.argv[1:]]),
        )
    return 1 if late else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.sync_restarts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--what", action="append", choices=WHAT, help="repeatable; else all")
    parser.add_argument("--times", type=int, default=20, help="restarts of each")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--no-publish", dest="publish", action="store_false")
    options = parser.parse_args()
    options.what = options.what or list(WHAT)
    return options


if __name__ == "__main__":
    sys.exit(main())
