"""A model of a broker: the product's publisher and wake sweep on a queue in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from unittest import mock

from kernel import clock
from sync_stack.orchestrator.server import broker
from sync_stack.orchestrator.server.broker import BrokerAway, Publisher
from sync_stack.orchestrator.services import sweeps


class ModelBroker:
    """The product's publisher and wake sweep on a queue in memory, with a clock that is moved.

    `extend` is what services publish by; a message waits in `queue` until a worker takes it.
    """

    def __init__(self) -> None:
        self.queue: list[str] = []
        self._later = timedelta()
        self._away = ""  # the fault that lasts
        self.restart()

    def restart(self) -> None:
        """The process that publishes ends, with all that it had not sent yet."""
        self._publisher = Publisher(self._send)

    def extend(self, task_ids: Iterable[str]) -> None:
        self._publisher(list(task_ids))
        self._send_waiting()

    def fault(self, what: str) -> None:
        """`stop`, `freeze`, `flush`, `back` or `restart` (of the publishing process)."""
        if what == "restart":
            self.restart()
        if what in ("stop", "flush"):
            self.queue.clear()
        if what in ("stop", "freeze"):
            self._away = what
        if what == "back":
            self._away = ""
            self._send_waiting()

    def pass_time(self) -> None:
        """Twenty seconds, and the wake sweep that comes in them."""
        self._later += timedelta(seconds=20)
        with self._moved():
            sweeps.wake(self._publisher, self._queued)
        self._send_waiting()

    def take(self) -> list[str]:
        """All messages, each for a worker."""
        taken, self.queue = self.queue, []
        return taken

    def now(self) -> datetime:
        return clock.now() + self._later

    def _send(self, task_id: str) -> None:
        if self._away:
            raise BrokerAway(self._away)
        self.queue.append(task_id)

    def _queued(self) -> int:
        return len(self.queue)

    def _send_waiting(self) -> None:
        with self._moved():
            while waiting := self._publisher.waiting:
                if not self._publisher.turn(waiting[0]):
                    return

    @contextmanager
    def _moved(self) -> Iterator[None]:
        moved = mock.Mock(now=self.now)
        with (
            mock.patch.object(sweeps, "clock", moved),
            mock.patch.multiple(broker, clock=moved, close_old_connections=lambda: None),
        ):
            yield
