"""Snapshots for callers and streams: they say that somebody watches, and may wait for a look."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from apps.accounts.api import Principal
from apps.environments.domain.documents import EnvironmentDocument, SnapshotDocument
from apps.environments.domain.inventory import EnvironmentStatus
from apps.environments.domain.reaps import RuntimeNotReached, SandboxNotFound
from apps.environments.domain.wire import NO_RUNTIME, environment_document
from apps.environments.selectors import (
    FRESH_FOR,
    InventoryState,
    Viewer,
    read_inventory,
    runners_without_look,
    snapshot_of,
    viewer_of,
)
from apps.environments.services.inventory_looks import ENVIRONMENTS_NUDGE, request_look, watch
from apps.streams.api import listen
from kernel import clock
from kernel.errors import FieldError, InvalidInput

LOOK_WITHIN_S: Final = 3.0
_POLL_S: Final = 0.2
_WORDS_CHARACTERS: Final = 200
_STATUSES: Final = {status.lower(): str(status) for status in EnvironmentStatus}
_TICKING: Final = frozenset({"updatedAt"})
_TICKING_OF_ENVIRONMENTS: Final = frozenset({"lastHeartbeatAt"})


def snapshot(principal: Principal, *, status: str = "", q: str = "") -> SnapshotDocument:
    """Return the environments that the caller may see; say that somebody watches.

    `status` is a comma list, in upper or lower case. Without a list of the last 60 s of every
    online runner, wait up to 3 s for one. Raise InvalidInput (invalid_parameter).
    """
    statuses, words = parse_statuses(status), parse_words(q)
    if runners_without_look(clock.now() - FRESH_FOR):
        state = look_again()
    else:
        watch()
        state = read_inventory()
    return snapshot_of(state, viewer_of(principal), statuses=statuses, words=words)


def environment_of_run(principal: Principal, run_id: str) -> EnvironmentDocument | None:
    """Return the environment of a run that the caller may see, as the last lists have it.

    None if there is none, or none is known. Wakes no runner and waits for nothing.
    """
    return _find(read_inventory(only=run_id), viewer_of(principal), run_id)


def environment(principal: Principal, sandbox_id: str) -> EnvironmentDocument:
    """Return one environment, after a look at it; raise SandboxNotFound or RuntimeNotReached."""
    state = look_again()
    found = _find(state, viewer_of(principal), sandbox_id)
    if found is not None:
        return found
    if not state.available:
        raise RuntimeNotReached(NO_RUNTIME)
    raise SandboxNotFound


def _find(state: InventoryState, viewer: Viewer, sandbox_id: str) -> EnvironmentDocument | None:
    for tracked in state.environments:
        if tracked.sandbox_id == sandbox_id and viewer.sees(tracked):
            return environment_document(tracked, can_reap=viewer.may_reap)
    return None


def look_again() -> InventoryState:
    """Ask for a look and wait for it, up to 3 s, as long as a runner is online."""
    woken = threading.Event()
    unlisten = listen(ENVIRONMENTS_NUDGE, woken.set)
    try:
        wanted_at = request_look()
        deadline = time.monotonic() + LOOK_WITHIN_S
        while runners_without_look(wanted_at) and time.monotonic() < deadline:
            woken.wait(_POLL_S)
            woken.clear()
    finally:
        unlisten()
    return read_inventory()


def parse_statuses(text: str) -> frozenset[str]:
    """Return the statuses of a comma list; raise InvalidInput (invalid_parameter)."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name.lower() not in _STATUSES]:
        detail = f"status: {unknown[0][:50]!r} is none of {', '.join(_STATUSES.values())}"
        raise _invalid("status", detail)
    return frozenset(_STATUSES[name.lower()] for name in names)


def parse_words(text: str) -> str:
    if len(text) > _WORDS_CHARACTERS:
        raise _invalid("q", f"q: at most {_WORDS_CHARACTERS} characters")
    return text.strip()


def _invalid(name: str, detail: str) -> InvalidInput:
    error = FieldError(pointer=f"/{name}", code="invalid_value", detail=detail)
    return InvalidInput(detail, code="invalid_parameter", errors=[error])


class SnapshotTaker:
    """Returns the records of the stream as JSON bytes: the same ones while nothing has changed.

    Each call says that somebody watches. What ticks (times of updates and heartbeats, how long a
    container is up) is no change of its own.
    """

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._known: Mapping[str, Any] = {}
        self._body = b""

    def __call__(self) -> bytes:
        watch()
        document = snapshot_of(read_inventory(), self._viewer)
        known = _without_ticks(document)
        if known != self._known or not self._body:
            record = {"reason": _reason(self._known, known), "snapshot": document}
            self._known = known
            self._body = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()
        return self._body


def _without_ticks(document: SnapshotDocument) -> Mapping[str, Any]:
    sandboxes = [
        {
            **{k: v for k, v in each.items() if k not in _TICKING_OF_ENVIRONMENTS},
            "containers": [
                {name: value for name, value in container.items() if name != "status"}
                for container in each["containers"]
            ],
        }
        for each in document["sandboxes"]
    ]
    steady = {name: value for name, value in document.items() if name not in _TICKING}
    return {**steady, "sandboxes": sandboxes}


def _reason(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if not before:
        return "latest"
    if before["reaps"] != now["reaps"]:
        return "reaps"
    return "resources" if _resources_in(before) != _resources_in(now) else "states"


def _resources_in(known: Mapping[str, Any]) -> list[tuple[object, ...]]:
    return [
        (
            each["sandboxId"],
            [(container["id"], container["state"]) for container in each["containers"]],
            each["networks"],
            each["volumes"],
        )
        for each in known["sandboxes"]
    ]
