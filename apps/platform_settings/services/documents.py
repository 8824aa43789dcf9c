"""The settings as clients read and replace them (reference: control-plane 4)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from django.utils.http import parse_etags

from apps.accounts.api import Principal
from apps.http.api import strong_etag
from apps.platform_settings.domain.backends import BackendState, backend_states
from apps.platform_settings.domain.changes import Change
from apps.platform_settings.domain.document import SettingsInvalid
from apps.platform_settings.domain.fields import UNDECRYPTABLE
from apps.platform_settings.domain.wire import (
    MASK,
    Wire,
    is_private,
    mask_secrets,
    secret_texts,
    settable_document,
)
from apps.platform_settings.models import RegistryState
from apps.platform_settings.selectors import last_changes, registry_states
from apps.platform_settings.services.changes import author_of, preview, replace_document
from apps.platform_settings.services.effective import current
from apps.platform_settings.services.encryption import unreadable_secrets
from apps.platform_settings.services.file_writer import write_file
from apps.platform_settings.services.settings_file import settings_file, wire_of_file
from kernel.clock import rfc3339
from kernel.errors import InvalidInput, PlatformError

_VOLATILE_DIGITS: Final = 16
_HIDDEN: Final = "not shown"
_MEND: Final = "list that key in SETTINGS_PREVIOUS_ENCRYPTION_KEYS, or enter the secret anew"


class SettingsChanged(PlatformError):
    """Another change came between the caller's read and this write."""

    code = "precondition_failed"


def settings_document(principal: Principal) -> dict[str, Any]:
    """Return the settings as the caller may see them, with the keys that the platform tells."""
    snapshot = current()
    document = _display(snapshot.wire, snapshot.updated_at, for_admin=principal.is_admin)
    if not principal.is_admin:
        own = str(principal.workspace_id)
        document["workspaces"] = [
            each for each in document["workspaces"] if each["workspaceId"] == own
        ]
    states: dict[str, BackendState] = {}
    for source in backend_states:
        states |= backend_states[source](snapshot.document.agents)
    for agent in document["agents"]:
        agent.update(_agent_state(agent, states.get(agent["agentId"], BackendState())))
    synced = registry_states([each["registryId"] for each in document["registries"]])
    for registry in document["registries"]:
        registry.update(_registry_state(synced.get(registry["registryId"])))
    document["fileInSync"] = settings_file.agrees(snapshot)
    document["warnings"] = [
        {"pointer": fault.pointer, "code": fault.code, "detail": f"{fault.detail}; {_MEND}"}
        for fault in snapshot.faults
        if fault.code == UNDECRYPTABLE
    ]
    return document


def settings_etag(document: Mapping[str, Any]) -> str:
    """Return the entity tag: a part of what can be set, and a part of all."""
    return f'"{_settable_part(document)}-{strong_etag(document)[1 : _VOLATILE_DIGITS + 1]}"'


def replace_settings(
    principal: Principal, given: Mapping[str, Any], *, if_match: str = "", origin: str = "api"
) -> list[Change]:
    """Replace the settings and return what changed.

    `if_match` holds entity tags: a tag fits while nothing that can be set has changed since; the
    keys that the platform tells, such as heartbeats, may have. Raise Forbidden (admin_required),
    InvalidInput, SettingsChanged.
    """
    author = author_of(principal, origin)

    def check(stored: Wire, updated_at: datetime | None) -> None:
        known = _settable_part(_display(stored, updated_at, for_admin=True))
        if if_match.strip() and not _names(if_match, known):
            raise SettingsChanged("the settings have changed since they were read")

    changes = replace_document(author, given, check)
    write_file()
    return changes


def preview_settings(principal: Principal, given: Mapping[str, Any]) -> list[Change]:
    """Return what a replacement would change; raise Forbidden, InvalidInput."""
    author_of(principal, "command")
    return preview(given)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastChange:
    """An entry of the history. `author` is empty where nobody signed in made it."""

    time: datetime
    origin: str
    author: str
    changes: tuple[Change, ...]


def settings_history(principal: Principal, limit: int) -> list[PastChange]:
    """Return the last changes, the newest first, as the caller may see them."""
    secret = {each.identity for each in secret_texts(current().wire)}
    return [
        PastChange(
            time=row.time,
            origin=row.origin,
            author=row.user_name if principal.is_admin else row.user_name.partition(" <")[0],
            changes=tuple(_hide_change(Change(**each), principal, secret) for each in row.changes),
        )
        for row in last_changes(limit)
    ]


def _hide_change(change: Change, principal: Principal, secret: Set[str]) -> Change:
    """Return a change as the caller may see it: what is a secret now was perhaps none then."""
    if change.key in secret:
        return Change(change.key, change.old and MASK, change.new and MASK)
    if is_private(change.key) and not principal.is_admin:
        return Change(change.key, _HIDDEN, _HIDDEN)
    return change


def settings_in_file(name: str, content: bytes) -> Wire:
    """Return the document of a settings file, as `replace_settings` takes it.

    Raise InvalidInput with file, line and column.
    """
    try:
        return wire_of_file(Path(name), content, takes_masks=True)
    except SettingsInvalid as error:
        raise InvalidInput(str(error), errors=error.faults) from None


def _display(wire: Wire, updated_at: datetime | None, *, for_admin: bool) -> dict[str, Any]:
    document = mask_secrets(wire, for_admin=for_admin, unreadable=unreadable_secrets(wire))
    if updated_at is not None:
        document["updatedAt"] = rfc3339(updated_at)
    return document


def _settable_part(document: Mapping[str, Any]) -> str:
    """`updatedAt` is another one after each change, also where only a masked secret differs."""
    parts = [settable_document(document), document.get("updatedAt", "")]
    return strong_etag(parts).strip('"')


def _names(if_match: str, known: str) -> bool:
    tags = parse_etags(if_match)
    return "*" in tags or any(tag.strip('"').partition("-")[0] == known for tag in tags)


def _agent_state(agent: Wire, state: BackendState) -> Wire:
    status = "Ready" if state.available else "Disconnected"
    told: Wire = {
        "status": status if agent["enabled"] else "Standby",
        "runtimeCapabilities": list(state.capabilities),
    }
    if agent["enabled"] and state.waits_for:
        told["waitsFor"] = state.waits_for
    if state.registered_at is not None:
        told["registeredAt"] = rfc3339(state.registered_at)
    if state.last_heartbeat_at is not None:
        told["lastHeartbeatAt"] = rfc3339(state.last_heartbeat_at)
    return told


def _registry_state(state: RegistryState | None) -> Wire:
    if state is None:
        return {"syncStatus": "Pending"}
    told: Wire = {"syncStatus": "Indexed" if state.succeeded else "Failed"}
    if state.last_synced_at is not None:
        told["lastSyncedAt"] = rfc3339(state.last_synced_at)
    if state.last_error:
        told["lastError"] = state.last_error
    return told
