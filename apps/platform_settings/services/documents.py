"""The settings as clients read and replace them (reference: control-plane 4)."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from apps.accounts.api import Principal
from apps.platform_settings.domain.backends import BackendState, backend_states
from apps.platform_settings.domain.changes import Change
from apps.platform_settings.domain.document import (
    NewSettings,
    SettingsInvalid,
    SettingsTree,
    read_tree,
)
from apps.platform_settings.domain.fields import UNDECRYPTABLE
from apps.platform_settings.domain.keys import MASK, key_named
from apps.platform_settings.domain.replacement import MAX_BYTES
from apps.platform_settings.domain.wire import (
    Wire,
    secret_texts,
)
from apps.platform_settings.models import RegistryState
from apps.platform_settings.selectors import last_changes, registry_states
from apps.platform_settings.services.changes import author_of, preview, replace_document
from apps.platform_settings.services.effective import current
from apps.platform_settings.services.entity_tags import masked_document
from apps.platform_settings.services.file_writer import write_file
from apps.platform_settings.services.settings_file import settings_file, text_of_file
from kernel.clock import rfc3339
from kernel.errors import InvalidInput
from kernel.mirrored_file import MirroredFile

_HIDDEN: Final = "not shown"
_MEND: Final = "list that key in SETTINGS_PREVIOUS_ENCRYPTION_KEYS, or enter the secret again"


def settings_document(principal: Principal) -> Wire:
    """Return the settings as the caller may see them, with the keys that the platform tells."""
    snapshot = current()
    document = masked_document(snapshot.wire, snapshot.updated_at, for_admin=principal.is_admin)
    if not principal.is_admin:
        own = str(principal.workspace_id)
        document["workspaces"] = [
            each for each in document["workspaces"] if each["workspaceId"] == own
        ]
        document["ciTrust"] = []
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


def replace_settings(
    principal: Principal,
    given: NewSettings,
    *,
    if_match: str = "",
    origin: str = "api",
) -> list[Change]:
    """Replace the settings and return what changed.

    `if_match` holds entity tags: a tag fits while nothing that can be set has changed since; the
    keys that the platform tells, such as heartbeats, may have. Raise Forbidden (admin_required),
    InvalidInput, SettingsChanged.
    """
    changes = replace_document(author_of(principal, origin), given, if_match)
    write_file()
    return changes


def preview_settings(principal: Principal, given: NewSettings) -> list[Change]:
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
    declared = key_named(change.key)
    if declared and declared.private and not principal.is_admin:
        return Change(change.key, _HIDDEN, _HIDDEN)
    return change


def settings_in_file(name: str, content: bytes) -> SettingsTree:
    """Return the document of a settings file, as `replace_settings` takes and checks it.

    Raise InvalidInput, with line and column, for what is no YAML.
    """
    file = MirroredFile(Path(name), MAX_BYTES)
    try:
        return read_tree(text_of_file(file, content), file.path.name)
    except SettingsInvalid as error:
        raise InvalidInput(str(error), errors=error.faults) from None


def _agent_state(agent: Wire, state: BackendState) -> Wire:
    status = "Ready" if state.available else "Disconnected"
    document: Wire = {
        "status": status if agent["enabled"] else "Standby",
        "runtimeCapabilities": list(state.capabilities),
    }
    if agent["enabled"] and state.waits_for:
        document["waitsFor"] = state.waits_for
    if state.registered_at is not None:
        document["registeredAt"] = rfc3339(state.registered_at)
    if state.last_heartbeat_at is not None:
        document["lastHeartbeatAt"] = rfc3339(state.last_heartbeat_at)
    return document


def _registry_state(state: RegistryState | None) -> Wire:
    if state is None:
        return {"syncStatus": "Pending"}
    document: Wire = {"syncStatus": "Indexed" if state.succeeded else "Failed"}
    if state.last_synced_at is not None:
        document["lastSyncedAt"] = rfc3339(state.last_synced_at)
    if state.last_error:
        document["lastError"] = state.last_error
    return document
