"""The journal, the state and explanations of calls, for REST, pages, commands and checks.

Without Redis they are those of this process. Called from threads, never from the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.mocks import wiring
from apps.mocks.domain.calls import CallOutcome, JournalEntry, MockRequest
from apps.mocks.domain.explanation import explain
from apps.mocks.domain.ports import Counter, StateRecord
from apps.mocks.domain.spaces import SpaceName
from apps.mocks.domain.tables import CompiledOperation, CompiledSurface
from apps.mocks.refusals import OperationNotFound, SpaceNotActive, SuiteNotFound, SurfaceNotFound


def read_journal(
    name: SpaceName,
    *,
    surface_id: str = "",
    operation_id: str = "",
    outcome: CallOutcome | None = None,
) -> list[JournalEntry]:
    """Return the calls of a space, the newest first."""
    return [
        entry
        for entry in wiring.parts().journal.newest(str(name))
        if surface_id in ("", entry.surface_id)
        and operation_id in ("", entry.operation_id)
        and outcome in (None, entry.outcome)
    ]


def clear_journal(name: SpaceName, *, surface_id: str = "", operation_id: str = "") -> int:
    """Remove calls; return how many there were."""
    journal = wiring.parts().journal
    return wiring.wait_for(
        lambda: journal.clear(str(name), surface_id=surface_id, operation_id=operation_id)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceState:
    """The records of a space by key, and its counters."""

    records: Sequence[StateRecord]
    counters: Sequence[Counter]


def read_state(name: SpaceName, *, key: str = "") -> SpaceState:
    """Return the records of a space, or the one at `key`, and its counters."""
    state = wiring.parts().state

    async def read() -> SpaceState:
        records = await state.records(str(name), key=key)
        return SpaceState(records=records, counters=await state.counters(str(name)))

    return wiring.wait_for(read)


def remove_state(name: SpaceName, *, surface_id: str = "", key: str = "") -> int:
    """Remove records and, without `key`, counters; return how many of both there were."""
    state = wiring.parts().state
    return wiring.wait_for(lambda: state.reset(str(name), surface_id=surface_id, key=key))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedCall:
    """A call to be explained: an operation by its id, or a method and a path below the surface."""

    surface_id: str
    operation_id: str = ""
    method: str = ""
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    raw_query: str = ""
    body: bytes = b""


def explain_call(
    name: SpaceName, call: ExplainedCall, *, defaults_only: bool = False
) -> dict[str, Any]:
    """Return how a call would be answered and why (reference: control-plane 18.1).

    Changes nothing. `defaults_only`: as if no record existed. Raise SuiteNotFound, SpaceNotActive,
    SurfaceNotFound, OperationNotFound.
    """
    made = wiring.parts()

    async def explained() -> dict[str, Any]:
        space = await made.spaces.barrier(str(name))
        if space is None:
            raise (
                SuiteNotFound(name.suite_id)
                if name.is_shared
                else SpaceNotActive(name.execution_id)
            )
        surface = space.compiled.surfaces.get(call.surface_id)
        if surface is None:
            raise SurfaceNotFound(call.surface_id)
        operation, request = _request(surface, call)
        return await explain(made.engine, operation, request, defaults_only=defaults_only)

    return wiring.wait_for(explained)


def _request(
    surface: CompiledSurface, call: ExplainedCall
) -> tuple[CompiledOperation, MockRequest]:
    operation = surface.operations.get(call.operation_id) if call.operation_id else None
    method = call.method or (operation.operation.method if operation else "")
    found = surface.route(method, call.path) if call.path else None
    if operation is None and not call.operation_id and found is not None:
        operation = found[0]
    if operation is None:
        wanted = call.operation_id or f"{method} {call.path}"
        raise OperationNotFound(f"the surface {call.surface_id} has no operation {wanted[:300]!r}")
    request = MockRequest(
        method,
        call.path or "/",
        headers={name.lower(): value for name, value in call.headers.items()},
        query=call.query,
        params=found[1] if found is not None and found[0] is operation else {},
        raw_body=call.body,
        raw_query=call.raw_query,
    )
    return operation, request
