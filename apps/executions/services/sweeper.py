"""The thread that sweeps: in the web process, beside a runner, or in a Celery worker."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Final

from django.db import InterfaceError, OperationalError, connection

from apps.executions.services.sweep import Presence, leave_sweeping, sweep
from apps.streams.api import DatastoreUnavailable, release_stale_connection
from apps.system.api import LifespanPart
from kernel.background import BackgroundThread

log = logging.getLogger("partita.executions")
INTERVAL_S: Final = 2.0


class Sweeper:
    """`start` once, then `stop`; several processes may each have one, one of them works."""

    def __init__(self, *, interval_s: float = INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._presence = Presence()
        self._thread: BackgroundThread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._stopped.clear()
            self._presence = Presence()
            self._thread = BackgroundThread(
                "sweeper", self._run, ended=self._stopped, after_failure=release_stale_connection
            )
            self._thread.start()

    def stop(self, *, wait_s: float = 5.0) -> None:
        """Return when the sweep under way has ended, or after `wait_s`."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(wait_s)
            self._thread = None

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._try(lambda: sweep(self._presence))
            self._stopped.wait(self._interval_s)
        self._try(leave_sweeping)
        connection.close()

    def _try(self, work: Callable[[], object]) -> None:
        try:
            release_stale_connection()
            work()
        except DatastoreUnavailable as error:
            log.warning("sweep: %s", error.detail)
        except (OperationalError, InterfaceError) as error:
            log.warning("sweep: the store is away: %s", error)


class SweeperPart(LifespanPart):
    """The web process sweeps too."""

    def __init__(self) -> None:
        self._sweeper = Sweeper()

    async def start(self) -> None:
        self._sweeper.start()

    async def drain(self) -> None:
        """Sweep no more, before what other parts release: each sweep is counted and traced."""
        await self.stop()

    async def stop(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._sweeper.stop)
