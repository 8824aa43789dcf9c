"""Celery inside this process: a worker on a thread, its broker in memory.

Its messages die with the process; the sweep finds what is due, as with any broker.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

from celery.exceptions import SecurityWarning

from apps.system.api import celery_application
from kernel.background import BackgroundThread


class CeleryThread:
    """`start()` begins to take tasks; `stop()` lets the running ones end.

    A worker that ends by itself, as Celery's does after an error of its own, is replaced.
    """

    def __init__(self) -> None:
        # it warns root, for tasks in pickle could run code: ours are JSON, from this process
        warnings.filterwarnings("ignore", category=SecurityWarning)
        self._ended = threading.Event()
        self._worker: Any = _worker()
        self._used = False
        self._thread = BackgroundThread("celery", self._work, ended=self._ended)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._worker.stop()
        self._thread.join(10)

    def _work(self) -> None:
        if self._used:
            self._worker = _worker()
        self._used = True
        self._worker.start()
        if not self._ended.is_set():
            raise RuntimeError(f"the Celery worker ended by itself: exit {self._worker.exitcode}")


def _worker() -> Any:
    return celery_application().Worker(
        pool="threads",
        concurrency=2,
        without_heartbeat=True,
        without_mingle=True,
        without_gossip=True,
        loglevel="WARNING",
        quiet=True,
    )
