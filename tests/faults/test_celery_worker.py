"""A Celery worker whose broker goes away while it holds messages goes on without a restart."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from celery import Celery

from platform_site import redis_transport
from platform_site.celery import app as platform_application
from tests.faults.broker import Broker
from tests.support.parts import need
from tests.support.processes import Process, until

HELD_S = 2.0
ROOT = Path(__file__).resolve().parents[2]
DOCUMENTED = ("--without-gossip", "--without-mingle")
ALONE = ("--without-mingle", "--without-gossip", "--without-heartbeat")
pytestmark = [pytest.mark.redis, pytest.mark.slow, pytest.mark.timeout(120)]


class Worker:
    """A worker of two processes over a broker of its own."""

    def __init__(self, folder: Path, broker: Broker, flags: Sequence[str]) -> None:
        self.folder, self.broker = folder, broker
        line = [sys.executable, "-m", "celery", "-A", "tests.faults.celery_app", "worker"]
        line += ["--concurrency", "2", *flags]
        environment = {"PATH": os.environ["PATH"], "BROKER_URL": broker.url}
        self.process = Process("worker", line, environment, folder / "worker.log")
        self._sender = Celery("sender", broker=broker.url, set_as_current=False)
        self._sent = 0

    def send(self, seconds: float) -> Path:
        """The path of a task that was sent."""
        self._sent += 1
        path = self.folder / f"task{self._sent}"
        self._sender.send_task("hold", args=[str(path), seconds], retry=False)
        return path

    def wait(self, path: Path, what: str) -> None:
        mark = Path(f"{path}.{what}")
        until(mark.exists, within_s=30, what=lambda: f"{mark.name}\n{self.process.tail()}")

    def could_not_acknowledge(self, messages: int) -> Callable[[], bool]:
        return lambda: self.process.text().count("Couldn't ack") == messages


@pytest.fixture(params=[DOCUMENTED, ALONE], ids=["as documented", "alone"])
def worker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Worker]:
    need("TEST_REDIS_ADDR", "Redis")
    with Broker(tmp_path) as broker:
        found = Worker(tmp_path, broker, request.param)
        found.process.start()
        try:
            found.wait(found.send(0), "ended")
            yield found
        finally:
            found.process.end()


def test_a_worker_whose_broker_stops_while_it_holds_a_task_and_polls_for_more_goes_on(
    worker: Worker,
):
    """Sync invariants 1, 7."""
    held = worker.send(HELD_S)
    worker.wait(held, "begun")
    worker.broker.stop()
    worker.wait(held, "ended")
    worker.broker.start()

    worker.wait(worker.send(0), "ended")
    assert worker.process.running
    assert "Gossip" not in worker.process.text(), "a loss of the broker is no error of ours"


def test_every_place_that_starts_workers_starts_them_so():
    places = [ROOT / "docker-compose.yml", *sorted((ROOT / "docs").rglob("*.md"))]
    found = [
        (path.name, line)
        for path in places
        for line in re.findall(
            r"celery(?:,? )-A(?:,? )platform_site(?:,?\s+)worker[^`#]*?(?=`|#|\n\S|\n\n)",
            path.read_text(),
        )
    ]

    assert len(found) >= 5
    assert [each for each in found if not all(flag in each[1] for flag in DOCUMENTED)] == []


@pytest.mark.parametrize("worker", [ALONE], indirect=True)
def test_a_worker_that_could_not_acknowledge_all_it_held_fetches_the_next(worker: Worker):
    """Sync invariants 1, 7."""
    held = [worker.send(HELD_S), worker.send(HELD_S)]
    for path in held:
        worker.wait(path, "begun")
    worker.broker.freeze()
    until(worker.could_not_acknowledge(len(held)), within_s=30, what=worker.process.tail)
    worker.broker.go_on()

    for path in (worker.send(0), worker.send(0)):
        worker.wait(path, "ended")


@pytest.mark.parametrize("url", ["redis://127.0.0.1/0", "rediss://127.0.0.1/0"])
def test_the_platforms_workers_use_this_transport(url: str):
    with platform_application.connection_for_read(url=url) as connection:
        assert isinstance(connection.transport, redis_transport.Transport)
