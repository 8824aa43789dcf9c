"""A Celery worker waits for its broker however long it is away."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from kombu.exceptions import OperationalError
from kombu.utils import functional

from tests.support import servers
from tests.support.parts import need
from tests.support.processes import until

pytestmark = [
    pytest.mark.redis,
    pytest.mark.filterwarnings("ignore::celery.exceptions.SecurityWarning"),  # make test is root
]
MANY = 120  # more than the 100 after which a worker gives up unless it is told otherwise


@pytest.fixture(params=["platform_site.settings.base", "platform_site.settings.sync"])
def celery(request: pytest.FixtureRequest) -> Celery:
    """An application with the project's settings, whose broker is not there yet."""
    app = Celery("late", set_as_current=False)
    app.config_from_object(import_module(request.param), namespace="CELERY")
    app.conf.update(
        broker_url=f"redis://127.0.0.1:{servers.free_port()}/0", broker_transport_options={}
    )
    return app


class Waits:
    """Stands for the pauses between two tries: counts them, and is told when to go on."""

    def __init__(self) -> None:
        self.count = 0
        self.many = threading.Event()
        self.broker_is_there = threading.Event()

    def __call__(self, _seconds: float) -> None:
        self.count += 1
        if self.count >= MANY * 30:  # each pause is made of up to 30 of a second
            self.many.set()
            self.broker_is_there.wait(30)


def test_a_worker_connects_to_a_redis_that_comes_after_its_hundredth_try(
    celery: Celery, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    need("TEST_REDIS_ADDR", "Redis")  # one of its own, started late
    waits, outcome = Waits(), []
    monkeypatch.setattr(functional, "sleep", waits)
    worker: Any = celery.Worker(pool="solo", quiet=True)
    consumer = worker.consumer

    def connect() -> None:
        try:
            outcome.append(consumer.connect())
        except OperationalError as error:
            outcome.append(error)

    thread = threading.Thread(target=connect)
    thread.start()
    with ExitStack() as stack:
        until(lambda: outcome or waits.many.is_set(), within_s=60, what="many tries")
        assert not outcome, f"it gave up after {consumer.broker_connection_retry_attempt} tries"
        assert consumer.broker_connection_retry_attempt > 100
        port = int(celery.conf.broker_url.split(":")[2].split("/")[0])
        monkeypatch.setattr(servers, "free_port", lambda: port)
        stack.enter_context(servers.redis(tmp_path))
        waits.broker_is_there.set()
        thread.join(30)

        (connection,) = outcome
        assert connection.connected
        connection.release()
