"""What a subscriber to an async operation gets (reference: control-plane 18.8)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Final

from kernel.errors import PlatformError
from mocks.engine.dispatch import Candidate
from mocks.engine.engine import Engine, constraint_error_answer, error_answer
from mocks.engine.tables import CompiledOperation
from mocks.engine.validation import check_constraints
from mocks.model.calls import MockAnswer, MockRequest
from mocks.templates.scope import Scope
from surfaces.model import SequenceRules

_EMPTY: Final[Mapping[str, str]] = {}


async def publish_round(
    engine: Engine, operation: CompiledOperation, request: MockRequest
) -> AsyncGenerator[MockAnswer]:
    """Yield one round of messages; an answer with an error code is the last one.

    Dispatcher `example` publishes all matches in the order of the file; the others draw as often
    as there are examples. Schemas of requests are not checked: nobody has sent a message yet.
    """
    tables = operation.tables
    if tables.broken is not None:
        yield tables.broken
        return
    try:
        errors, _ = check_constraints(tables.constraints, request)
        if errors:
            yield constraint_error_answer(errors)
            return
        scope = Scope(request, _EMPTY, "", engine.rng)
        if operation.dispatcher != "example":
            for _ in range(_draws(operation)):
                yield await _draw_answer(engine, operation, request)
            return
        await engine.look_up_state(operation, tables, scope)
        found: list[Candidate | None] = [*tables.candidates.matches(request, scope.state)]
        for candidate in found or [None]:
            yield await _answer(engine, operation, request, candidate)
    except PlatformError as error:
        yield error_answer(error)


async def _draw_answer(
    engine: Engine, operation: CompiledOperation, request: MockRequest
) -> MockAnswer:
    scope = Scope(request, _EMPTY, "", engine.rng)
    found = await engine.look_up_state(operation, operation.tables, scope)
    candidate = await engine.pick_candidate(operation, operation.tables, scope)
    return await engine.respond(operation, operation.tables, candidate, scope, found)


async def _answer(
    engine: Engine, operation: CompiledOperation, request: MockRequest, candidate: Candidate | None
) -> MockAnswer:
    """Return the answer of one match; it sees the changes of state of those before it."""
    scope = Scope(request, _EMPTY, "", engine.rng)
    found = await engine.look_up_state(operation, operation.tables, scope)
    return await engine.respond(operation, operation.tables, candidate, scope, found)


def _draws(operation: CompiledOperation) -> int:
    """Return how many messages are a round of a dispatcher that draws."""
    if operation.dispatcher == "script":
        return 1
    rules = operation.operation.mock.rules
    if isinstance(rules, SequenceRules):
        return len(rules.names)
    return max(1, len(operation.tables.candidates.listed))
