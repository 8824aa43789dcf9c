"""A thread of a server that works on the store in cycles, and outlives a store that is away."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Final

from django.db import InterfaceError, OperationalError, connection

from apps.operations.api import DatastoreUnavailable, LifespanPart
from apps.streams.services.unit_of_work import release_stale_connection
from kernel.background import BackgroundThread, one_cycle, report_error

log: Final = logging.getLogger("partita.background")
_STOP_S: Final = 5.0


class StoreLoop(LifespanPart):
    """Calls `work` every `interval_s` seconds, and `finish` once at its end.

    While the store is away, the loop says so, counts as failing, and tries again after `retry_s`
    seconds if that is sooner.
    """

    def __init__(self, name: str, *, interval_s: float, retry_s: float = 2.0) -> None:
        self._name = name
        self._interval_s = interval_s
        self._retry_s = min(interval_s, retry_s)
        self._stopped = threading.Event()
        self._thread = BackgroundThread(
            name, self._run, ended=self._stopped, after_failure=release_stale_connection
        )

    def work(self) -> None:
        """Do the work that is due; called on the thread, again after each wait."""
        raise NotImplementedError

    def finish(self) -> None:
        """Give back what the loop holds, a lease for example."""

    async def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """Stop after the current cycle, and wait up to 5 s for it."""
        self._stopped.set()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join, _STOP_S)

    def _run(self) -> None:
        while not self._stopped.is_set():
            with one_cycle():
                is_done = self._try(self.work)
            self._stopped.wait(self._interval_s if is_done else self._retry_s)
        self._try(self.finish)
        connection.close()

    def _try(self, work: Callable[[], object]) -> bool:
        """Call `work`; return False if the store is away."""
        try:
            release_stale_connection()
            work()
        except DatastoreUnavailable as error:
            log.warning("%s: %s", self._name, error.detail)
        except (OperationalError, InterfaceError) as error:
            log.warning("%s: the store is unavailable: %s", self._name, error)
        else:
            return True
        report_error()
        return False
