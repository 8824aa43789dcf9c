"""Changes of the stored settings: by clients, by the file, and by the syncs of registries.

Each is one unit of work with its entry in the history, conditional on the revision that it read.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from apps.accounts.api import Forbidden, Principal
from apps.operations.api import raise_generation
from apps.platform_settings import conf
from apps.platform_settings.domain.changes import Change, changes_between
from apps.platform_settings.domain.document import NewSettings
from apps.platform_settings.domain.encryption import encrypt_secrets
from apps.platform_settings.domain.replacement import check_replacement, outdated_registries
from apps.platform_settings.domain.wire import Wire, default_wire
from apps.platform_settings.models import PlatformSettings, RegistryState, SettingsChange
from apps.platform_settings.selectors import stored_settings
from apps.platform_settings.services.entity_tags import check_unchanged
from apps.streams.api import LostRace, unit_of_work
from kernel import clock
from kernel.errors import NotFound
from kernel.ids import new_uuid

TOPIC: Final = "platform"
HISTORY_ROWS: Final = 200
_MAX_ERROR: Final = 2_000
_audit = logging.getLogger("partita.audit")


class RegistryNotFound(NotFound):
    code = "registry_not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who changes the settings, and by what: `api`, `page`, `command`, `file` or `default`."""

    origin: str
    user_id: str = ""
    name: str = ""


def author_of(principal: Principal, origin: str) -> Author:
    """Return the author; raise Forbidden (admin_required) for others than administrators."""
    if not principal.is_admin:
        raise Forbidden("only an administrator may change the platform settings")
    name = f"{principal.full_name} <{principal.email}>"
    return Author(origin=origin, user_id=str(principal.user_id), name=name)


@dataclass(frozen=True, slots=True)
class _StoredSettings:
    """The stored document; `row` is None where nothing is stored, and the default stands."""

    row: PlatformSettings | None
    wire: Wire

    @property
    def updated_at(self) -> datetime | None:
        return self.row.updated_at if self.row else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replacement:
    """What a new document changes: the row's, the history, and what is known of registries."""

    wire: Wire
    file_digests: list[str]
    updated_at: datetime
    changes: list[Change]
    outdated_registries: list[str]


@unit_of_work
def replace_document(author: Author, given: NewSettings, if_match: str) -> list[Change]:
    """Store a client's document and return what changed.

    Raise SettingsChanged for entity tags that are not of the stored document, and InvalidInput
    with a pointer for each fault, and its place in a file.
    """
    stored = _load()
    check_unchanged(if_match, stored.wire, stored.updated_at)
    wire = check_replacement(given, stored.wire, conf.settings_context())
    return _write(author, stored, _decide(stored, wire))


def preview(given: NewSettings) -> list[Change]:
    """Return what a replacement would change; raise InvalidInput."""
    stored = _load()
    wire = check_replacement(given, stored.wire, conf.settings_context())
    return changes_between(stored.wire, wire)


@unit_of_work
def import_document(wire: Wire, digest: str) -> bool:
    """Store what a file says, unless it was imported or written by the platform before."""
    stored = _load()
    if stored.row is not None and digest in stored.row.file_digests:
        return False
    wire = encrypt_secrets(wire, stored.wire, conf.settings_context())
    _write(Author(origin="file"), stored, _decide(stored, wire, digests=[digest]))
    return True


@unit_of_work
def store_default() -> bool:
    """Store the built-in default where nothing is stored yet; return whether it was."""
    stored = _load()
    if stored.row is not None:
        return False
    _write(Author(origin="default"), stored, _decide(stored, stored.wire))
    return True


@unit_of_work
def record_sync(registry_id: str, *, succeeded: bool, error: str = "") -> None:
    """Record the end of a sync; raise RegistryNotFound. `error` must hold no secret."""
    row = stored_settings()
    known = row.wire["registries"] if row else []
    if registry_id not in [registry["registryId"] for registry in known]:
        raise RegistryNotFound(f"there is no registry {registry_id[:128]!r}")
    values: dict[str, object] = {"succeeded": succeeded, "last_error": error[:_MAX_ERROR]}
    if succeeded:
        values |= {"last_synced_at": clock.now(), "last_error": ""}
    if not RegistryState.objects.filter(registry_id=registry_id).update(**values):
        RegistryState.objects.create(registry_id=registry_id, **values)
    raise_generation(TOPIC)


def _load() -> _StoredSettings:
    row = stored_settings()
    return _StoredSettings(row, row.wire if row else default_wire())


def _decide(
    stored: _StoredSettings, wire: Wire, *, digests: list[str] | None = None
) -> _Replacement | None:
    """Return what storing the document changes, None for nothing; `digests` are of its file."""
    row, now = stored.row, clock.now()
    if row is not None and wire == stored.wire and digests is None:
        return None
    known = row.file_digests if row else []
    # later than every earlier revision, because entity tags are made of it
    updated_at = now if row is None else max(now, row.updated_at + timedelta(milliseconds=1))
    return _Replacement(
        wire=wire,
        file_digests=known if digests is None else digests,
        updated_at=updated_at,
        changes=changes_between(stored.wire, wire),
        outdated_registries=outdated_registries(stored.wire, wire),
    )


def _write(author: Author, stored: _StoredSettings, new: _Replacement | None) -> list[Change]:
    """Write the row, unless another change came between, and all that follows from it."""
    if new is None:
        return []
    row = PlatformSettings(
        revision=new_uuid(),
        document=new.wire,
        updated_at=new.updated_at,
        file_digests=new.file_digests,
    )
    if stored.row is None:
        row.save(force_insert=True)
    elif not PlatformSettings.objects.at_revision_of(stored.row).update(
        revision=row.revision,
        document=row.document,
        updated_at=row.updated_at,
        file_digests=row.file_digests,
    ):
        raise LostRace
    if new.outdated_registries:
        RegistryState.objects.filter(registry_id__in=new.outdated_registries).delete()
    if new.changes:
        _record(author, new.changes, row)
    raise_generation(TOPIC)
    return new.changes


def _record(author: Author, changes: list[Change], row: PlatformSettings) -> None:
    """Add an entry to the history, and a line to the audit log once it is committed."""
    shown = [change.as_dict() for change in changes]
    SettingsChange.objects.create(
        time=row.updated_at,
        revision=row.revision,
        origin=author.origin,
        user_id=author.user_id,
        user_name=author.name[:320],
        changes=shown,
    )
    ids = SettingsChange.objects.newest_until(row.updated_at).values_list("id", flat=True)
    if old := list(ids[HISTORY_ROWS : HISTORY_ROWS + 100]):
        SettingsChange.objects.filter(id__in=old).delete()
    line = {
        "type": "settings.changed",
        "time": clock.rfc3339(row.updated_at),
        "revision": str(row.revision),
        "origin": author.origin,
        **({"userId": author.user_id} if author.user_id else {}),
        "changes": shown,
    }
    transaction.on_commit(lambda: _audit.info(json.dumps(line, ensure_ascii=False)))
