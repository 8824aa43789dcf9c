"""The thread that removes objects of artifacts, and the check of their storage at the start.

It is not part of the sweep: a bucket that hangs must not delay what ends runs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import timedelta
from typing import Final

from django.core.exceptions import ImproperlyConfigured

from apps.executions import conf
from apps.executions.domain.artifact_storage import StorageMisconfigured, StorageUnavailable
from apps.executions.selectors.artifact_bytes import open_storage
from apps.executions.services.artifact_objects import (
    marked_objects,
    remove_marked_objects,
    remove_orphans,
)
from apps.executions.services.work_leases import ensure_lease_row, release_lease, take_lease
from apps.streams.api import StoreLoop
from kernel.background import report_error

INTERVAL_S: Final = 10.0
_PAGE_EVERY_S: Final = 60.0
_ROUND_EVERY_S: Final = 3600.0
_LEASE: Final = "artifact-objects"
_LEASE_FOR: Final = timedelta(seconds=120)
_log = logging.getLogger("partita.executions")


def require_artifact_storage() -> None:
    """Raise ImproperlyConfigured for a storage that somebody has to mend, naming the variable.

    One that does not answer is only warned about: uploads go into the store until it does.
    """
    location = conf.artifact_location()
    if location is None:
        return
    try:
        open_storage(location.url).check()
    except StorageMisconfigured as error:
        raise ImproperlyConfigured(f"ARTIFACT_STORAGE={location.url}: {error.reason}") from None
    except StorageUnavailable as error:
        _log.warning(
            "ARTIFACT_STORAGE=%s: %s; new artifacts go into the datastore",
            location.url,
            error.reason,
        )


class ArtifactSweep:
    """What one process removes, and how far it has compared objects with rows."""

    def __init__(self) -> None:
        self._after = ""
        self._next_page_s = 0.0

    def turn(self) -> bool:
        """Remove what is due; return False if another process does, or if there is nothing."""
        if conf.artifact_location() is None and not marked_objects().exists():
            return False
        ensure_lease_row(_LEASE)
        if not take_lease(_LEASE, _LEASE_FOR):
            return False
        remove_marked_objects()
        if time.monotonic() >= self._next_page_s:
            self._compare_page()
        return True

    def _compare_page(self) -> None:
        try:
            self._after = remove_orphans(self._after)
        except StorageUnavailable as error:
            _log.warning("orphans of artifacts are not looked for: %s", error.detail)
            report_error(optional=True)
        pause_s = _PAGE_EVERY_S if self._after else _ROUND_EVERY_S
        self._next_page_s = time.monotonic() + pause_s


class ArtifactSweeperPart(StoreLoop):
    """The check of the storage, and the thread of a web process; one process at a time works."""

    def __init__(self) -> None:
        super().__init__("artifacts", interval_s=INTERVAL_S)
        self._sweep = ArtifactSweep()

    def work(self) -> None:
        self._sweep.turn()

    def finish(self) -> None:
        release_lease(_LEASE)

    async def start(self) -> None:
        await asyncio.to_thread(require_artifact_storage)
        await super().start()
