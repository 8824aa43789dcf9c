"""configuration.yaml in this process: its import into the store, and whether both agree.

The store leads. A content of the file is considered once a process, and imported unless it is that
of the last import or was written by the platform since: an old copy on a replica undoes nothing.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from django.db import connection

from apps.platform_settings import conf
from apps.platform_settings.domain.document import SettingsInvalid, read_file
from apps.platform_settings.domain.encryption import meaning
from apps.platform_settings.domain.keys import MASK
from apps.platform_settings.domain.wire import Wire, secret_texts, wire_of
from apps.platform_settings.services.changes import import_document
from apps.platform_settings.services.live_settings import SettingsSnapshot, live_settings
from kernel.errors import FieldError
from kernel.mirrored_file import MirroredFile, NotText, digest_of

_log = logging.getLogger("partita.platform_settings")


@dataclass(frozen=True, slots=True)
class _Seen:
    """A content of the file; `wire` is None where it is invalid or there is no file."""

    path: Path
    content: bytes | None
    digest: str = ""
    wire: Wire | None = None
    fault: str = ""


class SettingsFile:
    """The file as it was last read.

    It is read at each call, because it is small and modification times are too coarse, and parsed
    when its bytes have changed.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._seen = _Seen(Path(), None)
        self._considered = ("", "")  # path and digest of what needs no import any more
        self._agreement: tuple[UUID | None, _Seen, bool] | None = None

    def import_changed(self) -> None:
        """Import the file if its content is new; while the store is away, leave it for later."""
        seen = self.read()
        this = (str(seen.path), seen.digest)
        if seen.wire is None or this == self._considered:
            return
        with self._lock:
            snapshot = live_settings.snapshot()
            if this == self._considered or live_settings.is_store_away():
                return
            is_new = seen.digest not in snapshot.file_digests
            if is_new and import_document(seen.wire, seen.digest):
                _log.info("Imported the platform settings of %s", seen.path.name)
            if not connection.in_atomic_block:  # else the import may not be committed
                self._considered = this

    def read(self) -> _Seen:
        """Return the current content; one that cannot be read counts as the last with a fault."""
        file = conf.settings_file()
        path = file.path
        with self._lock:
            try:
                content = file.content()
            except OSError as error:
                return _Seen(path, None, fault=f"{path.name}: {error.strerror}")
            if (path, content) != (self._seen.path, self._seen.content):
                self._seen = _examine(file, content)
            return self._seen

    def agrees(self, snapshot: SettingsSnapshot) -> bool:
        """Return whether the file says what the store holds; without a file it cannot differ."""
        seen = self.read()
        if seen.content is None:
            return not seen.fault
        kept = self._agreement
        if kept is None or kept[0] != snapshot.revision or kept[1] is not seen:
            context = conf.settings_context()
            equal = seen.wire is not None and (
                meaning(seen.wire, context) == meaning(snapshot.wire, context)
            )
            self._agreement = kept = (snapshot.revision, seen, equal)
        return kept[2]


def wire_of_file(file: MirroredFile, content: bytes) -> Wire:
    """Return the wire form of a file's content; raise SettingsInvalid, also for masks."""
    text = text_of_file(file, content)
    _document, tree = read_file(text, file.path.name, conf.settings_context())
    wire = wire_of(tree.root)
    for secret in secret_texts(wire):
        if secret.text == MASK:
            detail = f"{secret.key} is a mask, as it is shown instead of a secret; enter the secret"
            fault = FieldError(pointer=secret.pointer, code="invalid_value", detail=detail)
            raise SettingsInvalid([tree.place(fault)])
    return wire


def text_of_file(file: MirroredFile, content: bytes) -> str:
    """Return the text of a file's content; raise SettingsInvalid."""
    try:
        return file.text_of(content)
    except NotText as error:
        fault = FieldError(code="invalid_value", detail=str(error), file=file.path.name)
        raise SettingsInvalid([fault]) from None


def _examine(file: MirroredFile, content: bytes | None) -> _Seen:
    path = file.path
    if content is None:
        return _Seen(path, None)
    digest = digest_of(content)
    try:
        return _Seen(path, content, digest, wire_of_file(file, content))
    except SettingsInvalid as error:
        _log.error("The platform settings are invalid and remain unchanged: %s", error)
        return _Seen(path, content, digest, fault=str(error))


settings_file: Final = SettingsFile()
