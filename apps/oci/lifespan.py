"""Registries in a server: it asks the store what is due, as Celery beat does where it runs."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import timedelta
from typing import Final

from django.db import InterfaceError, OperationalError, connection

from apps.oci.api import due_registries, sync_due
from apps.operations.api import LifespanPart, celery_application
from apps.streams.api import DatastoreUnavailable, release_stale_connection
from kernel.background import BackgroundThread, one_cycle, report_error

INTERVAL_S: Final = 15.0
_AGAIN_S: Final = 2.0  # after the store was away
PATIENCE: Final = timedelta(seconds=60)  # after which nobody else seems to work on it
_log = logging.getLogger("partita.oci")


class RegistriesPart(LifespanPart):
    """A thread that sends `oci.sync_due` when a registry is due.

    Without a Celery worker, it synchronizes what is late by a minute itself.
    """

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._thread = BackgroundThread(
            "registries", self._run, ended=self._stopped, after_failure=release_stale_connection
        )

    async def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        self._stopped.set()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join, 5.0)

    def _run(self) -> None:
        while not self._stopped.is_set():
            with one_cycle():
                is_done = self._see_to_due()
            self._stopped.wait(INTERVAL_S if is_done else _AGAIN_S)
        connection.close()

    def _see_to_due(self) -> bool:
        """Have due registries synchronized; return False while the store is away."""
        try:
            release_stale_connection()
            see_to_due()
        except DatastoreUnavailable as error:
            _log.warning("registries: %s", error.detail)
        except (OperationalError, InterfaceError) as error:
            _log.warning("registries: the store is unavailable: %s", error)
        else:
            return True
        report_error()
        return False


def see_to_due() -> None:
    """Have the registries synchronized that are due."""
    if due_registries(late_by=PATIENCE):
        sync_due()
    elif due_registries():
        _send()


def _send() -> None:
    try:
        celery_application().send_task(
            "oci.sync_due", expires=INTERVAL_S, ignore_result=True, retry=False
        )
    except Exception as error:  # noqa: BLE001 - the edge to whatever broker is configured
        _log.warning("the broker is unavailable (%s); registries wait", error)
        report_error(optional=True)
