"""configuration.yaml after a change of the store: the old content or the new one, never a part."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from apps.platform_settings import conf
from apps.platform_settings.domain.document import SettingsInvalid
from apps.platform_settings.domain.encryption import meaning
from apps.platform_settings.domain.round_trip import merged_text
from apps.platform_settings.domain.wire import NotMergeable, Version
from apps.platform_settings.models import PlatformSettings
from apps.platform_settings.selectors import stored_settings
from apps.platform_settings.services.settings_file import wire_of_file
from apps.streams.api import unit_of_work
from kernel.ids import new_uuid
from kernel.mirrored_file import MirroredFile, digest_of

_MOST_DIGESTS: Final = 200
_ATTEMPTS: Final = 5  # another change may come between
_log = logging.getLogger("partita.platform_settings")


def write_file() -> None:
    """Write the stored settings into the file, where there is one that can be written.

    Otherwise the file stays as it is, and `fileInSync` says so.
    """
    file = _real_file()
    if not file.path.exists():
        return
    try:
        with file.lock():
            for _attempt in range(_ATTEMPTS):
                if _write_back(file):
                    return
    except (OSError, SettingsInvalid, NotMergeable) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        _log.warning("%s was not rewritten and differs from the store: %s", file.path.name, reason)


def replace_in_file(change: Callable[[str], str]) -> bool:
    """Replace the file's text by one that means the same; it is not imported for that.

    Return False, and change nothing, when the stored settings changed meanwhile; raise OSError.
    """
    file = _real_file()
    with file.lock():
        content, row = file.content(), stored_settings()
        if content is None:
            return True
        text = change(content.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        is_known = row is not None and digest_of(content) in row.file_digests
        if row is not None and is_known and not _remember(row, digest_of(text)):
            return False
        file.replace(text)
        return True


def _real_file() -> MirroredFile:
    """Return the file that a link leads to, for the link stays."""
    file = conf.settings_file()
    return replace(file, path=Path(os.path.realpath(file.path)))


def _write_back(file: MirroredFile) -> bool:
    """Return False when the settings changed meanwhile."""
    row, content = stored_settings(), file.content()
    if row is None or content is None:
        return True
    context, wire = conf.settings_context(), wire_of_file(file, content)
    written = Version(wire, meaning(wire, context))
    new = Version(row.wire, meaning(row.wire, context))
    if written.meaning == new.meaning:
        return True
    text = merged_text(content.decode(), written, new).encode()
    if meaning(wire_of_file(file, text), context) != new.meaning:
        raise NotMergeable("its anchors or its layout cannot hold the new values")
    if not _remember(row, digest_of(text)):
        return False
    file.replace(text)
    return True


@unit_of_work
def _remember(row: PlatformSettings, digest: str) -> bool:
    """Store the digest before the file has it: what is written here is never imported."""
    first, later = row.file_digests[:1], row.file_digests[1:]
    digests = [*first, *later[-_MOST_DIGESTS:], digest]
    rows = PlatformSettings.objects.at_revision_of(row)
    return bool(rows.update(file_digests=digests, revision=new_uuid()))
