"""Celery messages, sent by a thread of its own because a broker may refuse them or hang."""

from __future__ import annotations

import logging
import queue
import threading
from dataclasses import dataclass
from typing import Final

from apps.operations.api import celery_application
from kernel.background import BackgroundThread

log = logging.getLogger("partita.executions")
_WAITING_AT_MOST: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Message:
    task: str
    arguments: tuple[str, ...]
    expires_s: float | None


class _Publisher:
    """Sends messages; the sweep does the work of lost ones, and of what a full queue drops."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[_Message] = queue.Queue(_WAITING_AT_MOST)
        self._lock = threading.Lock()
        self._thread: BackgroundThread | None = None

    def put(self, message: _Message) -> None:
        try:
            self._waiting.put_nowait(message)
        except queue.Full:
            log.warning(
                "the broker does not accept messages; %s is left to the sweep", message.task
            )
            return
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = BackgroundThread("enqueue", self._run)
                self._thread.start()

    def _run(self) -> None:
        while True:
            message = self._waiting.get()
            try:
                celery_application().send_task(
                    message.task,
                    args=message.arguments,
                    expires=message.expires_s,
                    ignore_result=True,
                    retry=False,
                )
            except Exception as error:  # noqa: BLE001 - the edge to whatever broker is configured
                log.warning(
                    "the broker is unavailable (%s); %s is left to the sweep", error, message.task
                )


_publisher = _Publisher()


def enqueue(task: str, *arguments: str, expires_s: float | None = None) -> None:
    """Send a Celery task by name, to be ignored after `expires_s`; never block, never raise."""
    _publisher.put(_Message(task, arguments, expires_s))
