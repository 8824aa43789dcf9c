"""What is in mock spaces, and its changes from outside: explanations, state, calls.

(reference: control-plane 18.1, 18.5)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from apps.mocks.domain.calls import JournalEntry
from apps.mocks.domain.explanation import explain
from apps.mocks.domain.inspection import CallFilter, ExplainedCall, SurfaceNotFound, located
from apps.mocks.domain.ports import Counter, StateRecord
from apps.mocks.domain.spaces import SpaceName
from apps.mocks.domain.tables import CompiledSpace
from apps.mocks.refusals import SpaceNotActive, SuiteNotFound
from apps.mocks.serving import Serving, wait_for
from kernel.errors import FieldError, InvalidInput, NotFound, PlatformError

MAX_RECORD_BYTES: Final = 64 * 2**10
_TRIES: Final = 20  # against mocks that change the same record meanwhile


class RecordChanged(PlatformError):
    code = "precondition_failed"


class RecordNotFound(NotFound):
    """No record has this key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceState:
    records: Sequence[StateRecord]
    counters: Sequence[Counter]


def explain_call(name: SpaceName, call: ExplainedCall, *, defaults_only: bool) -> dict[str, Any]:
    """Return what would answer a call and why; change nothing.

    With `defaults_only` no record of the state is seen. Raise SuiteNotFound or SpaceNotActive,
    SurfaceNotFound, OperationNotFound, InvalidInput.
    """

    async def explained(served: Serving) -> dict[str, Any]:
        operation, request = located(await _loaded(served, name), call)
        return await explain(served.engine, operation, request, defaults_only=defaults_only)

    return wait_for(explained)


def read_state(name: SpaceName, *, key: str = "") -> SpaceState:
    """Return the records of a space by key, and its counters."""

    async def state(served: Serving) -> SpaceState:
        space = str(name)
        return SpaceState(
            records=await served.state.records(space, key=key),
            counters=await served.state.counters(space),
        )

    return wait_for(state)


def read_journal(name: SpaceName, wanted: CallFilter | None = None) -> Sequence[JournalEntry]:
    """Return the kept calls of a space, the newest first."""

    async def calls(served: Serving) -> Sequence[JournalEntry]:
        found = await served.journal.entries(str(name))
        return found if wanted is None else [each for each in found if wanted.matches(each)]

    return wait_for(calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePatch:
    """`version` is the one that must be stored, None for any; 0 stands for no record.

    `surface_id` is the owner of a record that the patch makes.
    """

    key: str
    set: Mapping[str, str] = field(default_factory=dict)
    delete: Collection[str] = ()
    version: int | None = None
    surface_id: str = ""


def patch_state(name: SpaceName, patch: StatePatch) -> StateRecord:
    """Set and delete fields of a record at once; make it if `surface_id` says whose it is.

    Raise RecordNotFound, RecordChanged (another `version` is stored), InvalidInput, and
    SuiteNotFound, SpaceNotActive or SurfaceNotFound for a new record.
    """

    async def patched(served: Serving) -> StateRecord:
        for _ in range(_TRIES):
            before = await served.state.read(str(name), patch.key)
            version = before.version if before else 0
            if patch.version not in (None, version):
                raise RecordChanged(f"the record has version {version}, not {patch.version}")
            surface_id = before.surface_id if before else await _owner(served, name, patch)
            fields = _fields(before, patch)
            if await served.state.change(
                str(name), patch.key, surface_id, version=version, fields=fields
            ):
                after = await served.state.read(str(name), patch.key)
                if after is not None:
                    return after
        raise RecordChanged("mocks change this record all the time; try again")

    return wait_for(patched)


async def _owner(served: Serving, name: SpaceName, patch: StatePatch) -> str:
    if not patch.surface_id:
        detail = f"no record has the key {patch.key!r}; with surfaceId the patch would make it"
        raise RecordNotFound(detail)
    space = await _loaded(served, name)
    if patch.surface_id not in space.surfaces:
        raise SurfaceNotFound(f"the suite has no API surface {patch.surface_id!r}")
    return patch.surface_id


def _fields(before: StateRecord | None, patch: StatePatch) -> dict[str, str]:
    kept = dict(before.fields) if before else {}
    for name in patch.delete:
        kept.pop(name, None)
    kept |= patch.set
    size = sum(len(name.encode()) + len(value.encode()) for name, value in kept.items())
    if size > MAX_RECORD_BYTES:
        detail = f"a record has at most {MAX_RECORD_BYTES // 1024} KiB"
        raise InvalidInput(
            detail, errors=[FieldError(pointer="/set", code="invalid_value", detail=detail)]
        )
    return kept


def remove_state(name: SpaceName, *, surface_id: str = "", key: str = "") -> int:
    """Remove records and, without `key`, counters; return how many of both there were."""

    async def removed(served: Serving) -> int:
        return await served.state.reset(str(name), surface_id=surface_id, key=key)

    return wait_for(removed)


def clear_journal(name: SpaceName, *, surface_id: str = "", operation_id: str = "") -> int:
    """Forget calls; return how many."""

    async def cleared(served: Serving) -> int:
        return await served.journal.clear(
            str(name), surface_id=surface_id, operation_id=operation_id
        )

    return wait_for(cleared)


async def _loaded(served: Serving, name: SpaceName) -> CompiledSpace:
    space = await served.load(name)
    if space is not None:
        return space
    raise SuiteNotFound(name.suite_id) if name.is_shared else SpaceNotActive(name.execution_id)
