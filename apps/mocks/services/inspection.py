"""What is in mock spaces, and its changes from outside: explanations, state, calls.

Without Redis they are those of this process. Called from threads, never from the event loop.
(reference: control-plane 18.1, 18.5)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from apps.mocks import components
from apps.operations.api import living_servers
from kernel import clock
from kernel.clock import rfc3339
from kernel.errors import FieldError, InvalidInput, NotFound, PlatformError
from mocks.engine.documents import Explanation
from mocks.engine.tables import CompiledSpace
from mocks.inspection.call_filters import CallFilter
from mocks.inspection.explained_calls import ExplainedCall, locate_call
from mocks.inspection.explanation import explain
from mocks.inspection.questions import PatchInput
from mocks.inspection.verification import Question, Verification, verify, why_some_are_lost
from mocks.journal.redis import GATHER_S
from mocks.model.calls import JournalEntry
from mocks.model.ports import Counter, StateRecord
from mocks.model.spaces import SpaceName
from mocks.spaces import require_space

MAX_RECORD_BYTES: Final = 64 * 2**10
_SETTLED: Final = timedelta(seconds=20)  # then the server before this one is counted no more
_LOOKS_EVERY_S: Final = 0.1
_TRIES: Final = 20  # against mocks that change the same record meanwhile


class RecordChanged(PlatformError):
    code = "precondition_failed"


def journal_delay_s() -> float | None:
    """Return after how many seconds this process sees every call; None if it sees none.

    Without Redis, calls are in the memory of the server alone.
    """
    parts = components.mock_parts()
    if parts.link is not None:
        return 2 * GATHER_S
    return None if parts.loop is None else 0.0


def journal_gap(since: datetime) -> str:
    """Return why `read_journal` may lack calls since this time, "" if it has all that are kept.

    To be asked after `read_journal`, which notices that Redis is away.
    """
    parts = components.mock_parts()
    if parts.link is not None:
        away = "Redis does not answer, and each process keeps the calls that it gets"
        return away if parts.link.is_away else ""
    began = parts.serves_since
    if began is not None and began > since:
        at = rfc3339(began)
        return f"the server started again at {at} and lost the calls before (REDIS_ADDR keeps them)"
    if began is not None and began + _SETTLED <= clock.now() and living_servers() > 1:
        return "several servers answer, each with its own calls: they need Redis (REDIS_ADDR)"
    return ""


class RecordNotFound(NotFound):
    """No record has this key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceState:
    records: Sequence[StateRecord]
    counters: Sequence[Counter]


def explain_call(name: SpaceName, call: ExplainedCall, *, defaults_only: bool) -> Explanation:
    """Return what would answer a call and why; change nothing.

    With `defaults_only` no record of the state is seen. Raise SuiteNotFound or SpaceNotActive,
    SurfaceNotFound, OperationNotFound, InvalidInput.
    """

    async def explain_in_space() -> Explanation:
        located = locate_call(await _load_space(name), call)
        return await explain(components.mock_parts().engine, *located, defaults_only=defaults_only)

    return components.wait_for(explain_in_space)


def read_state(name: SpaceName, *, key: str = "") -> SpaceState:
    """Return the records of a space by key, and its counters."""
    state = components.mock_parts().state

    async def read() -> SpaceState:
        records = await state.records(str(name), key=key)
        return SpaceState(records=records, counters=await state.counters(str(name)))

    return components.wait_for(read)


def read_journal(name: SpaceName, wanted: CallFilter | None = None) -> list[JournalEntry]:
    """Return the kept calls of a space, the newest first."""
    found = components.mock_parts().journal.newest(str(name))
    return [entry for entry in found if wanted is None or wanted.matches(entry)]


def verify_calls(name: SpaceName, asked: Question) -> Verification:
    """Return whether a space got the calls that are meant; raise InvalidInput.

    Other processes send their calls to Redis in batches, so it looks again until those have come.
    """
    delay_s = (journal_delay_s() or 0.0) if living_servers() > 1 else 0.0
    until = time.monotonic() + delay_s
    while True:
        is_last = time.monotonic() >= until
        entries = read_journal(name)
        since = asked.filter.since
        gap = why_some_are_lost(entries, since) or journal_gap(since or clock.now())
        answer = verify(asked, entries, gap=gap)
        is_settled = answer["verified"] and asked.most is None and not asked.asks_nothing
        if is_last or is_settled:
            return answer
        time.sleep(_LOOKS_EVERY_S)


def patch_state(name: SpaceName, patch: PatchInput) -> StateRecord:
    """Set and delete fields of a record at once; make it if `surface_id` says whose it is.

    Raise RecordNotFound, RecordChanged (another `version` is stored), InvalidInput, and
    SuiteNotFound, SpaceNotActive or SurfaceNotFound for a new record.
    """
    state = components.mock_parts().state

    async def apply_patch() -> StateRecord:
        for _ in range(_TRIES):
            before = await state.read(str(name), patch.key)
            version = before.version if before else 0
            if patch.version not in (None, version):
                raise RecordChanged(f"the record has version {version}, not {patch.version}")
            surface_id = before.surface_id if before else await _owner(name, patch)
            fields = _fields(before, patch)
            if await state.change(str(name), patch.key, surface_id, version=version, fields=fields):
                after = await state.read(str(name), patch.key)
                if after is not None:
                    return after
        raise RecordChanged("mocks change this record all the time; try again")

    return components.wait_for(apply_patch)


async def _owner(name: SpaceName, patch: PatchInput) -> str:
    if not patch.surface_id:
        detail = f"no record has the key {patch.key!r}; with surfaceId the patch would make it"
        raise RecordNotFound(detail)
    space = await _load_space(name)
    return space.find_surface(patch.surface_id).surface.surface_id


def _fields(before: StateRecord | None, patch: PatchInput) -> dict[str, str]:
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
    state = components.mock_parts().state
    return components.wait_for(lambda: state.reset(str(name), surface_id=surface_id, key=key))


def clear_journal(
    name: SpaceName, *, surface_id: str = "", operation_id: str = "", tag: str = ""
) -> int:
    """Forget the calls that have what is not empty; return how many."""
    journal = components.mock_parts().journal
    return components.wait_for(
        lambda: journal.clear(str(name), surface_id=surface_id, operation_id=operation_id, tag=tag)
    )


async def _load_space(name: SpaceName) -> CompiledSpace:
    space = await components.mock_parts().spaces.load_now(str(name))
    return require_space(name, space).compiled
