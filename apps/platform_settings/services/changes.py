"""Changes of the stored settings: by clients, by the file, and by the syncs of registries.

Each is one unit of work with its entry in the history, conditional on the revision that it read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db import transaction

from apps.accounts.api import Forbidden, Principal
from apps.operations.api import raise_generation
from apps.platform_settings import conf
from apps.platform_settings.domain.changes import Change, changes_between
from apps.platform_settings.domain.document import interpret
from apps.platform_settings.domain.wire import (
    Wire,
    default_wire,
    node_of,
    settable_document,
    wire_of,
    with_kept_secrets,
)
from apps.platform_settings.models import PlatformSettings, RegistryState, SettingsChange
from apps.platform_settings.selectors import stored_settings
from apps.platform_settings.services.encryption import encrypt_secrets, unreadable_secrets
from apps.streams.api import LostRace, unit_of_work
from kernel import clock
from kernel.errors import FieldError, InvalidInput, NotFound
from kernel.ids import new_uuid

TOPIC: Final = "platform"
HISTORY_ROWS: Final = 200
_MAX_BYTES: Final = conf.MAX_FILE_BYTES
_MAX_ERROR: Final = 2_000
_MOST_FAULTS: Final = 100  # of an answer
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


@unit_of_work
def replace_document(
    author: Author, given: Mapping[str, Any], check: Callable[[Wire, Any], None]
) -> list[Change]:
    """Store a client's document and return what changed.

    `check` takes the stored document and the time of its change, and raises what stops the
    replacement, such as PreconditionFailed. Raise InvalidInput with a pointer for each fault.
    """
    row = stored_settings()
    stored = row.wire if row else default_wire()
    check(stored, row.updated_at if row else None)
    return _store(author, row, encrypt_secrets(_check_document(given, stored), stored))


def preview(given: Mapping[str, Any]) -> list[Change]:
    """Return what a replacement would change; raise InvalidInput."""
    row = stored_settings()
    stored = row.wire if row else default_wire()
    return changes_between(stored, encrypt_secrets(_check_document(given, stored), stored))


@unit_of_work
def import_document(wire: Wire, digest: str) -> bool:
    """Store what a file says, unless it was imported or written by the platform before."""
    row = stored_settings()
    if row is not None and digest in row.file_digests:
        return False
    stored = row.wire if row else default_wire()
    _store(Author(origin="file"), row, encrypt_secrets(wire, stored), digests=[digest])
    return True


@unit_of_work
def store_default() -> bool:
    """Store the built-in default where nothing is stored yet; return whether it was."""
    if stored_settings() is not None:
        return False
    _store(Author(origin="default"), None, default_wire())
    return True


@unit_of_work
def record_sync(registry_id: str, *, succeeded: bool, error: str = "") -> None:
    """Record the end of a sync; raise RegistryNotFound. `error` must hold no secret."""
    row = stored_settings()
    known = row.wire["registries"] if row else []
    if registry_id not in [registry["registryId"] for registry in known]:
        raise RegistryNotFound(f"there is no registry {registry_id[:128]!r}")
    values: dict[str, Any] = {"succeeded": succeeded, "last_error": error[:_MAX_ERROR]}
    if succeeded:
        values |= {"last_synced_at": clock.now(), "last_error": ""}
    if not RegistryState.objects.filter(registry_id=registry_id).update(**values):
        RegistryState.objects.create(registry_id=registry_id, **values)
    raise_generation(TOPIC)


def _check_document(given: Mapping[str, Any], stored: Wire) -> Wire:
    """Return the wire form with the stored secrets in place of masks; raise InvalidInput."""
    settable = settable_document(given)
    _refuse_large(settable)
    root = node_of(settable)
    _document, faults = interpret(root, "", conf.surroundings(), needs_agents=True)
    if faults:
        raise _invalid(faults)
    wire, faults = with_kept_secrets(wire_of(root), stored, unreadable_secrets(stored))
    if faults:
        raise _invalid(faults)
    _refuse_large(wire)
    return wire


def _refuse_large(document: Mapping[str, Any]) -> None:
    if len(json.dumps(document)) > _MAX_BYTES:
        detail = f"the settings are larger than {_MAX_BYTES} bytes"
        raise _invalid([FieldError(code="invalid_value", detail=detail)])


def _invalid(faults: list[FieldError]) -> InvalidInput:
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return InvalidInput(f"{faults[0].detail}{more}", errors=faults[:_MOST_FAULTS])


def _store(
    author: Author,
    row: PlatformSettings | None,
    wire: Wire,
    *,
    digests: list[str] | None = None,
) -> list[Change]:
    changes = changes_between(row.wire if row else default_wire(), wire)
    known = row.file_digests if row else []
    if row is not None and wire == row.wire and digests is None:
        return []
    values = {
        "revision": new_uuid(),
        "document": wire,
        "updated_at": _later_than(row),
        "file_digests": known if digests is None else digests,
    }
    if row is None:
        PlatformSettings.objects.create(**values)
    elif not PlatformSettings.objects.filter(pk=row.pk, revision=row.revision).update(**values):
        raise LostRace
    _forget_registries(row.wire if row else default_wire(), wire)
    _record(author, changes, values)
    raise_generation(TOPIC)
    return changes


def _later_than(row: PlatformSettings | None) -> Any:
    """Return a time that no earlier revision has, because entity tags are made of it."""
    now = clock.now()
    return now if row is None else max(now, row.updated_at + timedelta(milliseconds=1))


def _forget_registries(old: Wire, new: Wire) -> None:
    """Delete the states of registries that are gone or stand at another address."""
    urls = {each["registryId"]: each["registryUrl"] for each in new["registries"]}
    outdated = [
        each["registryId"]
        for each in old["registries"]
        if urls.get(each["registryId"]) != each["registryUrl"]
    ]
    if outdated:
        RegistryState.objects.filter(registry_id__in=outdated).delete()


def _record(author: Author, changes: list[Change], values: Mapping[str, Any]) -> None:
    """Add an entry to the history, and a line to the audit log once it is committed."""
    if not changes:
        return
    shown = [change.as_dict() for change in changes]
    SettingsChange.objects.create(
        time=values["updated_at"],
        revision=values["revision"],
        origin=author.origin,
        user_id=author.user_id,
        user_name=author.name[:320],
        changes=shown,
    )
    until_now = SettingsChange.objects.filter(time__lte=values["updated_at"])
    ids = until_now.order_by("-time", "-id").values_list("id", flat=True)
    if old := list(ids[HISTORY_ROWS : HISTORY_ROWS + 100]):
        SettingsChange.objects.filter(id__in=old).delete()
    line = {
        "type": "settings.changed",
        "time": clock.rfc3339(values["updated_at"]),
        "revision": str(values["revision"]),
        "origin": author.origin,
        **({"userId": author.user_id} if author.user_id else {}),
        "changes": shown,
    }
    transaction.on_commit(lambda: _audit.info(json.dumps(line, ensure_ascii=False)))
