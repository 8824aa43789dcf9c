"""Registries in a server: it asks the store what is due, as Celery beat does where it runs."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Final

from apps.oci.services.sync import due_registries, sync_due
from apps.operations.api import celery_application
from apps.streams.api import StoreLoop
from kernel.background import report_error

INTERVAL_S: Final = 15.0
PATIENCE: Final = timedelta(seconds=60)  # after which nobody else seems to work on it
_log = logging.getLogger("partita.oci")


class RegistriesPart(StoreLoop):
    """A thread that sends `oci.sync_due` when a registry is due.

    Without a Celery worker, it synchronizes what is late by a minute itself.
    """

    def __init__(self) -> None:
        super().__init__("registries", interval_s=INTERVAL_S)

    def work(self) -> None:
        see_to_due()


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
