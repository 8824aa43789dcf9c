"""The publisher: a broker that refuses, hangs or fails in a way that nobody foresaw."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from celery import Celery

from kernel import background
from sync_stack.orchestrator import conf
from sync_stack.orchestrator.server import broker
from sync_stack.orchestrator.server.broker import (
    BrokerAway,
    Publisher,
    count_queued_messages,
    send_to_broker,
)
from sync_stack.orchestrator.services import task_transitions
from tests.support import servers
from tests.support.processes import until


@pytest.fixture(autouse=True)
def marked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids that were marked as published; nothing waits longer than a moment."""
    names: list[str] = []
    monkeypatch.setattr(task_transitions, "mark_published", lambda ids, _now: names.extend(ids))
    monkeypatch.setattr(broker, "close_old_connections", lambda: None)
    monkeypatch.setattr(broker, "_PROBE_S", 0.05)
    monkeypatch.setattr(broker, "_AGAIN_S", 0.05)
    return names


class Scripted:
    """A broker whose calls first fail as listed."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.sent: list[str] = []
        self.probes = 0

    def send(self, task_id: str) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.sent.append(task_id)

    def probe(self) -> None:
        self.probes += 1
        if self.errors:
            raise self.errors.pop(0)


@pytest.fixture
def publishers() -> Iterator[list[Publisher]]:
    made: list[Publisher] = []
    yield made
    for publisher in made:
        publisher.stop()
        publisher._thread.join(5)


def started(publishers: list[Publisher], publisher: Publisher) -> Publisher:
    publishers.append(publisher)
    publisher.start()
    return publisher


def test_what_the_broker_does_not_take_is_sent_once_when_it_answers_again(
    publishers: list[Publisher], marked: list[str]
):
    """Sync invariant 1."""
    away = Scripted(*[BrokerAway("ConnectionError")] * 3)
    publish = started(publishers, Publisher(away.send))

    publish(["a", "b"])
    publish(["a"])
    until(lambda: publish.failing, within_s=30)
    until(lambda: away.sent == ["a", "b"], within_s=30)
    until(lambda: not publish.failing, within_s=30)

    assert marked == ["a", "b"]


def test_an_error_that_nobody_foresaw_is_counted_and_loses_no_task(publishers: list[Publisher]):
    """Sync invariant 1."""
    before = background.failures().get("publisher", 0)
    odd = Scripted(ValueError("nobody thought of this"))
    publish = started(publishers, Publisher(odd.send))

    publish(["a"])
    until(lambda: odd.sent == ["a"], within_s=30)

    assert background.failures()["publisher"] == before + 1


def test_a_broker_that_went_away_while_nothing_is_sent_is_seen(publishers: list[Publisher]):
    away = Scripted(BrokerAway("TimeoutError"), BrokerAway("TimeoutError"))
    publish = started(publishers, Publisher(away.send, probe=away.probe))

    until(lambda: publish.failing, within_s=30)
    until(lambda: not publish.failing, within_s=30)

    assert away.probes >= 3


@pytest.mark.timed
def test_who_publishes_never_waits_for_a_broker_that_hangs(publishers: list[Publisher]):
    going_on = threading.Event()

    def hang(_task_id: str) -> None:
        going_on.wait(30)

    publish = started(publishers, Publisher(hang))
    begun = time.monotonic()

    for number in range(1_000):
        publish([f"task {number}", "always the same"])
    took = time.monotonic() - begun
    waiting = len(publish._waiting)
    going_on.set()

    assert took < 5
    assert 1_000 <= waiting <= 1_001, "each id waits once"


@pytest.fixture
def celery(monkeypatch: pytest.MonkeyPatch) -> Iterator[Celery]:
    """An application of its own, whose connections nobody else has."""
    app = Celery(set_as_current=False)
    app.conf.broker_connection_timeout = 1
    app.conf.broker_transport_options = {"socket_timeout": 0.5, "socket_connect_timeout": 0.5}
    monkeypatch.setattr(conf, "celery_application", lambda: app)
    yield app
    app.close()


def ask(_task_id: str) -> int:
    return count_queued_messages()


@pytest.mark.timed
@pytest.mark.parametrize("call", [ask, send_to_broker])
def test_a_broker_that_is_not_there_or_never_answers_is_away_within_seconds(
    call: Callable[[str], object], celery: Celery
):
    with servers.silent() as hanging:
        for address in (f"127.0.0.1:{servers.free_port()}", hanging):
            celery.conf.update(broker_url=f"redis://{address}/0")
            begun = time.monotonic()

            with pytest.raises(BrokerAway, match="Error"):
                call("a")
            assert time.monotonic() - begun < 10


def test_a_queue_that_no_worker_made_yet_holds_nothing(celery: Celery):
    celery.conf.update(broker_url="memory://")

    assert count_queued_messages() == 0
