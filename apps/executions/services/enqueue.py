"""Telling the Celery workers, from a thread of its own: a broker may refuse, or hang for ever."""

from __future__ import annotations

import logging
import queue
import threading
from typing import Final

from celery import current_app

log = logging.getLogger("partita.executions")
_WAITING_AT_MOST: Final = 1_000


class _Publisher:
    """A message that is lost, or dropped while the broker hangs, is made up for by the sweep."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[str] = queue.Queue(_WAITING_AT_MOST)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, task: str) -> None:
        try:
            self._waiting.put_nowait(task)
        except queue.Full:
            log.warning("the broker does not take messages; %s is left to the sweep", task)
            return
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="enqueue", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            task = self._waiting.get()
            try:
                current_app.send_task(task, ignore_result=True, retry=False)
            except Exception as error:  # noqa: BLE001 - the edge to whatever broker is configured
                log.warning("the broker is away (%s); %s is left to the sweep", error, task)


_publisher = _Publisher()


def enqueue(task: str) -> None:
    """Send a Celery task by name. Never blocks, never raises."""
    _publisher.put(task)
