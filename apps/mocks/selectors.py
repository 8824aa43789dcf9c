"""What is in mock spaces: state, calls, and why a call would be answered as it would.

(reference: control-plane 18.1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.mocks.domain.calls import JournalEntry
from apps.mocks.domain.inspection import CallFilter, ExplainedCall, located
from apps.mocks.domain.ports import Counter, StateRecord
from apps.mocks.domain.spaces import SpaceName
from apps.mocks.serving import Serving, wait_for
from kernel.errors import NotFound


class SuiteNotFound(NotFound):
    code = "suite_not_found"


class SpaceNotActive(NotFound):
    code = "space_not_active"


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
        from apps.mocks.domain.explanation import explain

        space = await served.load(name)
        if space is None:
            raise missing_space(name)
        operation, request = located(space, call)
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


def missing_space(name: SpaceName) -> NotFound:
    if name.is_shared:
        return SuiteNotFound(f"there is no suite {name.suite_id!r}")
    return SpaceNotActive(f"the run serves no mocks of {name.suite_id!r}, or it has ended")
