"""configuration.yaml after a change of the store: the old content or the new one, never a part."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from apps.platform_settings import conf
from apps.platform_settings.domain.document import SettingsInvalid
from apps.platform_settings.domain.round_trip import merged_text
from apps.platform_settings.domain.wire import NotMergeable, Version
from apps.platform_settings.models import PlatformSettings
from apps.platform_settings.selectors import stored_settings
from apps.platform_settings.services.encryption import meaning
from apps.platform_settings.services.settings_file import (
    digest_of,
    file_content,
    wire_of_file,
)
from apps.streams.api import unit_of_work
from kernel.ids import new_uuid

_MODE: Final = 0o600
_MOST_DIGESTS: Final = 200
_ATTEMPTS: Final = 5  # another change may come between
_log = logging.getLogger("partita.platform_settings")


def write_file() -> None:
    """Write the stored settings into the file, where there is one that can be written.

    Otherwise the file stays as it is, and `fileInSync` says so.
    """
    path = Path(os.path.realpath(conf.settings_file()))
    if not path.exists():
        return
    try:
        with _lock(path.parent):
            for _attempt in range(_ATTEMPTS):
                if _write_back(path):
                    return
    except (OSError, SettingsInvalid, NotMergeable) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        _log.warning("%s was not rewritten and differs from the store: %s", path.name, reason)


def replace_in_file(change: Callable[[str], str]) -> bool:
    """Replace the file's text by one that means the same; it is not imported for that.

    Return False, and change nothing, when the stored settings changed meanwhile; raise OSError.
    """
    path = Path(os.path.realpath(conf.settings_file()))
    with _lock(path.parent):
        content, row = file_content(path), stored_settings()
        if content is None:
            return True
        text = change(content.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        is_known = row is not None and digest_of(content) in row.file_digests
        if row is not None and is_known and not _remember(row, digest_of(text)):
            return False
        _replace(path, text)
        return True


def _write_back(path: Path) -> bool:
    """Return False when the settings changed meanwhile."""
    row, content = stored_settings(), file_content(path)
    if row is None or content is None:
        return True
    wire = wire_of_file(path, content)
    file, new = Version(wire, meaning(wire)), Version(row.wire, meaning(row.wire))
    if file.meaning == new.meaning:
        return True
    text = merged_text(content.decode(), file, new).encode()
    if meaning(wire_of_file(path, text)) != new.meaning:
        raise NotMergeable("its anchors or its layout cannot hold the new values")
    if not _remember(row, digest_of(text)):
        return False
    _replace(path, text)
    return True


@unit_of_work
def _remember(row: PlatformSettings, digest: str) -> bool:
    """Store the digest before the file has it: what is written here is never imported."""
    first, later = row.file_digests[:1], row.file_digests[1:]
    digests = [*first, *later[-_MOST_DIGESTS:], digest]
    rows = PlatformSettings.objects.filter(pk=row.pk, revision=row.revision)
    return bool(rows.update(file_digests=digests, revision=new_uuid()))


def _replace(path: Path, content: bytes) -> None:
    """Replace the file at once; a crash leaves the old content or the new one."""
    beside = path.with_name(f".{path.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(beside, flags, _MODE), "wb") as file:
        os.fchmod(file.fileno(), _MODE)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """One process at a time writes in this folder; a lock ends with its process."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
