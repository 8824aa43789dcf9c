"""A Celery worker on a thread, with its broker in memory.

Its messages are lost with the process; the sweep finds the work, as with any broker.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

from celery.exceptions import SecurityWarning

from apps.operations.api import celery_application
from kernel.background import BackgroundThread


class CeleryThread:
    """Executes tasks from `start()` to `stop()`, which waits for the running ones.

    A worker that exits after an internal error is replaced.
    """

    def __init__(self) -> None:
        # it warns root about tasks in pickle; ours are JSON, from this process
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
            raise RuntimeError(
                f"the Celery worker exited unexpectedly with code {self._worker.exitcode}"
            )


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
