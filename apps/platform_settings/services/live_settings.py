"""The settings in force in this process: read from the store, decrypted once a revision.

Each read asks the store for the revision (one row by its key), so that a change is seen at once in
every process. Decrypted values are kept in memory only. While the store is away, the last settings
stay in force. (reference: control-plane 4)
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar
from uuid import UUID

from django.db import connection

from apps.observability.api import is_awaited
from apps.operations.api import is_store_away
from apps.platform_settings import conf
from apps.platform_settings.domain.document import Document, interpret
from apps.platform_settings.domain.wire import Wire, default_wire, node_of
from apps.platform_settings.selectors import stored_revision, stored_settings
from apps.streams.api import release_stale_connection
from kernel.background import report_error
from kernel.errors import FieldError

T = TypeVar("T")

_RECENT_S: Final = 1.0
_PAUSE_S: Final = 1.0  # after a store that was away, before it is asked again
_log = logging.getLogger("partita.platform_settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsSnapshot:
    """The settings of one revision; `wire` has encrypted secrets. No revision: nothing stored."""

    revision: UUID | None = None
    wire: Wire = field(default_factory=default_wire, repr=False)
    document: Document = field(default_factory=Document)
    faults: tuple[FieldError, ...] = ()
    updated_at: datetime | None = None
    file_digests: frozenset[str] = frozenset()


class _ThreadSettings(threading.local):
    takes_recent = False


_thread = _ThreadSettings()


@contextmanager
def recent_settings() -> Iterator[None]:
    """In this block, this thread takes settings that were read up to a second ago.

    For the hot path, whose every batch would otherwise ask the store once per step.
    """
    outer, _thread.takes_recent = _thread.takes_recent, True
    try:
        yield
    finally:
        _thread.takes_recent = outer


class LiveSettings:
    """Keeps the snapshot of the revision that was read last. It is thread-safe.

    A revision never stands for two documents, not even after a rollback.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: SettingsSnapshot | None = None
        self._asked_again_at = 0.0  # after the store was away
        self._read_at = -_RECENT_S

    def snapshot(self) -> SettingsSnapshot:
        """Return the settings as stored now, else the last ones; raise what the store raises.

        A background loop that gets the last ones is told so (`kernel.background.report_error`).
        Requests and transactions fail with the store.
        """
        kept = self._kept
        if kept is not None and self.is_store_away():
            return kept
        try:
            return self._read(kept)
        except Exception as error:
            if kept is None or self._must_fail(error):
                raise
            _log.warning("The last platform settings stay in force: the store is away: %s", error)
            report_error()
            release_stale_connection()  # or a restart of the store would be an absence for ever
            self._asked_again_at = self._clock() + _PAUSE_S
            return kept

    @staticmethod
    def _must_fail(error: Exception) -> bool:
        """A transaction has failed by it, and a request needs the store: it may not wait twice."""
        return connection.in_atomic_block or is_awaited() or not is_store_away(error)

    def recent(self) -> SettingsSnapshot | None:
        """Return the snapshot of the last second, if the thread takes that."""
        is_recent = self._clock() < self._read_at + _RECENT_S
        return self._kept if _thread.takes_recent and is_recent else None

    def last_snapshot(self) -> SettingsSnapshot | None:
        """Return what was read last, however long ago."""
        return self._kept

    def forget(self) -> None:
        """Read everything anew next time."""
        self._kept, self._asked_again_at, self._read_at = None, 0.0, -_RECENT_S

    def is_store_away(self) -> bool:
        """Return whether the last read found no store, a moment ago."""
        return self._clock() < self._asked_again_at

    def _read(self, kept: SettingsSnapshot | None) -> SettingsSnapshot:
        revision, self._read_at = stored_revision(), self._clock()
        if kept is not None and kept.revision == revision:
            return kept
        self._kept = snapshot = _read_stored()
        return snapshot


def _read_stored() -> SettingsSnapshot:
    row = stored_settings()
    if row is None:
        return SettingsSnapshot()
    document, faults = interpret(node_of(row.document), "", conf.settings_context())
    for fault in faults:
        _log.error("The stored platform settings have a fault: %s: %s", fault.pointer, fault.detail)
    return SettingsSnapshot(
        revision=row.revision,
        wire=row.wire,
        document=document,
        faults=tuple(faults),
        updated_at=row.updated_at,
        file_digests=frozenset(row.file_digests),
    )


live_settings: Final = LiveSettings()
