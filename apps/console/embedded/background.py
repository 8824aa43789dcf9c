"""Celery inside this process: a worker on a thread, its broker in memory.

Its messages die with the process; the sweep finds what is due, as with any broker.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

from celery import current_app
from celery.exceptions import SecurityWarning


class CeleryThread:
    """`start()` returns once the worker takes tasks; `stop()` lets the running ones end."""

    def __init__(self) -> None:
        # it warns root, for tasks in pickle could run code: ours are JSON, from this process
        warnings.filterwarnings("ignore", category=SecurityWarning)
        self._worker: Any = current_app.Worker(
            pool="threads",
            concurrency=2,
            without_heartbeat=True,
            without_mingle=True,
            without_gossip=True,
            loglevel="WARNING",
            quiet=True,
        )
        self._thread = threading.Thread(target=self._worker.start, name="celery", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._worker.stop()
        self._thread.join(10)
