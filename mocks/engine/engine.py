"""How a call of a mock is answered (reference: control-plane 18.2, steps 2 to 7)."""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast
from urllib.parse import quote

from kernel.errors import FieldErrorDocument, PlatformError
from kernel.problems import PROBLEMS
from mocks.engine.callbacks import due_callbacks
from mocks.engine.dispatch import Call, Candidate
from mocks.engine.nearest import nearest_example
from mocks.engine.rate_limits import rate_limit_answer, take_call
from mocks.engine.soap import find_soap_operation
from mocks.engine.tables import CompiledOperation, OperationTables, graphql_calls
from mocks.engine.transitions import NO_STATE, LookedUp, apply, look_up
from mocks.engine.validation import check_constraints
from mocks.engine.variants import NotAcceptable, accepted_variant, with_vary
from mocks.engine.wanted_examples import (
    NotThere,
    WantedExample,
    apply_preferences,
    find_wanted,
    with_schema,
)
from mocks.errors import FaultUnavailable
from mocks.model.calls import CallOutcome, MockAnswer, MockRequest
from mocks.model.ports import Proxy, ProxyRefused, ScriptRunner, StateStore
from mocks.negotiation.prefer import PREFER, QUERY_MARK, Preferences, read_preferences
from mocks.templates.scope import AnswerTooLarge, Scope
from mocks.templates.values import NotOfType
from surfaces.contract_checks import OperationChecks, Violation
from surfaces.model import Mock
from surfaces.operation_rules import ValidateMode

Forwarded = Sequence[tuple[str, str]]
_REJECTED: Final = (AnswerTooLarge, NotOfType, NotAcceptable)
_INVALID: Final = "mock_request_invalid"
_VIOLATION: Final = "mock_contract_violation"
_COUNTER: Final = "counter:"  # begins what counters of templates are called among those of draws
_SAFE_IN_PATH: Final = "/%:@!$&'()*+,;=~-._"
_randomness: Final = random.Random()  # noqa: S311 - for values of mocks, not for secrets
os.register_at_fork(after_in_child=_randomness.seed)


@dataclass(slots=True, kw_only=True)
class Engine:
    """Answers calls. `rng` makes generated values and draws without a seed.

    `validate` is how calls are checked against their contract where no file of the suite says so;
    `validate_always` is how they are whatever files say.
    """

    state: StateStore
    scripts: ScriptRunner
    proxy: Proxy
    rng: random.Random = _randomness
    validate: ValidateMode = "warn"
    validate_always: ValidateMode | None = None

    def mode_of(self, operation: CompiledOperation) -> ValidateMode:
        """Return how calls of an operation are checked."""
        return self.validate_always or operation.operation.mock.validate or self.validate

    def checks_of(self, operation: CompiledOperation) -> OperationChecks | None:
        """Return what checks the calls of an operation, None for nothing."""
        return None if self.mode_of(operation) == "off" else operation.contract_checks

    async def answer(self, operation: CompiledOperation, request: MockRequest) -> MockAnswer:
        """Return the answer to a call, with the delay to wait before it is sent."""
        checks = self.checks_of(operation)
        violation = None if checks is None else checks.check(request)
        answer = await self._answer(operation, request, violation)
        errors = () if violation is None else violation.errors
        if checks is not None and answer.fallback == "proxy":
            errors += checks.answer_errors(answer.status, answer.media_type, answer.body)
        return replace(answer, contract_errors=errors) if errors else answer

    async def _answer(
        self, operation: CompiledOperation, request: MockRequest, violation: Violation | None
    ) -> MockAnswer:
        tables = operation.tables
        if violation is None and (static := operation.static_for(request)) is not None:
            return static
        if tables.broken is not None:
            return tables.broken
        try:
            refusal, forwarded = await self._look_at(operation, request, violation)
            answer = refusal or await self._resolve(operation, tables, request)
        except PlatformError as error:
            return error_answer(error)
        except UnicodeEncodeError:  # a lone surrogate, as JSON may hold it
            return error_answer(PlatformError("the request is not Unicode", code=_INVALID))
        return with_headers(answer, forwarded) if forwarded else answer

    async def _look_at(
        self, operation: CompiledOperation, request: MockRequest, violation: Violation | None
    ) -> tuple[MockAnswer | None, Forwarded]:
        """Return the answer that refuses a call, if one does, and the headers to copy."""
        for limit, key in operation.limits:
            place = operation.space.key, operation.surface.surface_id
            if wait_ms := await take_call(limit, key, self.state, place):
                return rate_limit_answer(limit, wait_ms), ()
        errors, forwarded = check_constraints(operation.tables.constraints, request)
        if errors:
            return constraint_error_answer(errors), ()
        if violation is not None and self.mode_of(operation) == "enforce":
            return violation_answer(violation), ()
        return None, forwarded

    async def answer_route(
        self, operation: CompiledOperation, request: MockRequest
    ) -> tuple[CompiledOperation, MockAnswer]:
        """Return the operation that a call of an address means, and the answer of it."""
        if operation.protocol == "graphql":
            found = await graphql_calls().answer_graphql(operation, request, self.answer)
            return cast("tuple[CompiledOperation, MockAnswer]", found)
        if operation.protocol == "soap":
            found = find_soap_operation(operation, request)
            if isinstance(found, MockAnswer):
                return operation, found
            operation = found
        return operation, await self.answer(operation, request)

    async def answer_named(
        self, operation: CompiledOperation, request: MockRequest
    ) -> tuple[CompiledOperation, MockAnswer]:
        """Return the answer to a call of an operation, of GraphQL that which the query means."""
        if operation.protocol == "graphql":
            return await self.answer_route(operation, request)
        return operation, await self.answer(operation, request)

    async def _resolve(
        self, operation: CompiledOperation, tables: OperationTables, request: MockRequest
    ) -> MockAnswer:
        scope = Scope(request, _EMPTY, "", self.rng)
        found = await self.look_up_state(operation, tables, scope)
        wanted = None
        if operation.adapter == "rest":
            header = request.headers.get(PREFER)
            if header is not None or QUERY_MARK in request.raw_query:
                wanted = read_preferences(header or "", request.query)
        asked = await self._choose(operation, tables, scope, wanted)
        if asked is None:
            return await self._fall_back(operation, tables, scope, found)
        candidate = asked.candidate
        if candidate.variants:
            name = wanted.example if wanted else ""
            candidate = accepted_variant(candidate, request.headers.get("accept", ""), name)
        if candidate.schema is not None and (errors := candidate.schema.errors(request)):
            return invalid_request_answer(errors, candidate.name)
        answer = await self._respond(operation, tables, candidate, scope, found)
        if wanted is not None:
            answer = apply_preferences(answer, asked, candidate, wanted, randomness=self.rng)
        return with_vary(answer, candidate)

    async def _choose(
        self, operation: CompiledOperation, tables: OperationTables, scope: Scope,
        wanted: Preferences | None,
    ) -> WantedExample | None:  # fmt: skip
        """Return the example that the caller asks for, otherwise that of the dispatcher.

        Raise NotThere. A proxy gets what is not there, since its server may have it.
        """
        fallback = operation.operation.mock.fallback
        asked: WantedExample | None = None
        if wanted is not None and (wanted.code or wanted.example):
            try:
                asked = find_wanted(tables.candidates.listed, operation.declared, wanted)
            except NotThere:
                if fallback is None or fallback.mode != "proxy":
                    raise
        elif (picked := await self.pick_candidate(operation, tables, scope)) is not None:
            asked = WantedExample(picked)
        if asked is not None and wanted is not None and wanted.dynamic:
            return with_schema(asked, operation.declared)
        return asked

    async def look_up_state(
        self, operation: CompiledOperation, tables: OperationTables, scope: Scope
    ) -> LookedUp:
        """Read the state of a call into its scope, if anything depends on it."""
        if tables.state is None:
            return NO_STATE
        if not tables.reads_state:
            return LookedUp(tables.state.key(scope), None, tables.state.defaults, was_read=False)
        found = await look_up(tables.state, scope, self.state, operation.space.key)
        scope.state = found.fields
        return found

    async def pick_candidate(
        self, operation: CompiledOperation, tables: OperationTables, scope: Scope
    ) -> Candidate | None:
        """Return the example that the dispatcher picks."""
        call = Call(
            scope.request,
            scope.state,
            tables.place,
            operation.operation.mock.rules,
            store=self.state,
            scripts=self.scripts,
            rng=self.rng,
        )
        return await tables.pick(tables.candidates, call)

    async def respond(
        self, operation: CompiledOperation, tables: OperationTables, candidate: Candidate | None,
        scope: Scope, found: LookedUp,
    ) -> MockAnswer:  # fmt: skip
        """Return the answer of an example, without a look at the request, or of the fallback."""
        if candidate is None:
            return await self._fall_back(operation, tables, scope, found)
        return await self._respond(operation, tables, candidate, scope, found)

    async def _respond(
        self, operation: CompiledOperation, tables: OperationTables, candidate: Candidate,
        scope: Scope, found: LookedUp,
    ) -> MockAnswer:  # fmt: skip
        """Render an example and apply its transition."""
        if candidate.response.fault is not None and operation.adapter != "rest":
            raise FaultUnavailable(f"a fault needs the adapter rest, not {operation.adapter}")
        scope.example = candidate.name
        is_own = tables.candidates.by_name.get(candidate.name) is candidate
        transition = tables.state.transition(candidate.name) if tables.state and is_own else None
        if transition is None:
            await self._count(operation, candidate.response.counters, scope)
            answer = candidate.response.constant or candidate.response.answer(scope)
            return _with_callbacks(answer, candidate, scope)
        assert tables.state is not None
        await self._count(operation, candidate.response.counters | transition.counters, scope)
        answer = candidate.response.answer(scope)
        place = (operation.space.key, operation.surface.surface_id)
        change = await apply(transition, tables.state, scope, found, self.state, place)
        answer.state_key = change.key if change else ""
        return _with_callbacks(answer, candidate, scope)

    async def _count(
        self, operation: CompiledOperation, names: Collection[str], scope: Scope
    ) -> None:
        """Draw the next number of each counter, from 1; one space counts them for all calls."""
        if names:
            scope.counters = {
                name: 1 + await self.state.draw(operation.space.key, "", f"{_COUNTER}{name}")
                for name in sorted(names)
            }

    async def _fall_back(
        self, operation: CompiledOperation, tables: OperationTables, scope: Scope, found: LookedUp
    ) -> MockAnswer:
        fallback = operation.operation.mock.fallback
        if fallback is None:
            return no_match_answer(operation, scope)
        if tables.fallback is not None:
            await self._count(operation, tables.fallback.counters, scope)
            return tables.fallback.constant or tables.fallback.answer(scope)
        if fallback.mode == "proxy":
            return await self._forward(tables, operation.operation.mock, scope.request)
        candidate = tables.candidates.by_name.get(fallback.example_name)
        if candidate is None:
            return no_match_answer(operation, scope)
        answer = await self._respond(operation, tables, candidate, scope, found)
        return replace(answer, outcome=CallOutcome.FALLBACK, fallback="example")

    async def _forward(
        self, tables: OperationTables, mock: Mock, request: MockRequest
    ) -> MockAnswer:
        assert mock.fallback is not None
        found = await self.proxy.forward(
            proxied_url(mock.fallback.proxy_url, request),
            method=request.method,
            headers=request.headers,
            body=request.raw_body,
            let_through=frozenset(
                each.rule.name.lower()
                for each in tables.constraints
                if each.rule.forward and each.rule.source == "header"
            ),
        )
        return MockAnswer(
            status=found.status,
            media_type=found.media_type,
            headers=found.headers,
            body=found.body,
            outcome=CallOutcome.FALLBACK,
            fallback="proxy",
            fault=mock.fault,
        )


_EMPTY: Final[Mapping[str, str]] = {}


def proxied_url(url: str, request: MockRequest) -> str:
    """Return where a proxy fallback sends a request; raise ProxyRefused.

    Exactly `url` or, if it ends in `/`, with the path below the surface appended; the caller's
    query is appended unless `url` has one.
    """
    base, mark, query = url.partition("?")
    if base.endswith("/"):
        path = request.path.removeprefix("/")
        if any(part.lower().replace("%2e", ".") in (".", "..") for part in path.split("/")):
            raise ProxyRefused("a path with the segment . or .. is not forwarded")
        base += quote(path, safe=_SAFE_IN_PATH)
    if not mark and request.raw_query:
        mark, query = "?", quote(request.raw_query, safe=_SAFE_IN_PATH + "?[]")
    return f"{base}{mark}{query}"


def _with_callbacks(answer: MockAnswer, candidate: Candidate, scope: Scope) -> MockAnswer:
    if not candidate.callbacks:
        return answer
    return replace(answer, callbacks=due_callbacks(candidate.callbacks, scope, answer))


def with_headers(answer: MockAnswer, forwarded: Forwarded) -> MockAnswer:
    """Return an answer with the headers that constraints copy; they replace its own."""
    if answer.error_code:
        return answer
    names = {name.lower() for name, _ in forwarded}
    kept = [each for each in answer.headers if each[0].lower() not in names]
    return replace(answer, headers=(*kept, *forwarded))


def constraint_error_answer(errors: Sequence[FieldErrorDocument]) -> MockAnswer:
    """Return the answer to a call that breaks constraints."""
    return MockAnswer(
        status=400,
        outcome=CallOutcome.REJECTED,
        error_code="mock_constraint_failed",
        detail=_sentence(errors, "the request breaks a parameter constraint"),
        errors=errors,
    )


def violation_answer(violation: Violation) -> MockAnswer:
    """Return the answer to a call that breaks its contract, where that is enforced."""
    challenges = violation.challenges
    return MockAnswer(
        status=violation.status,
        headers=(("WWW-Authenticate", challenges),) if challenges else (),
        outcome=CallOutcome.REJECTED,
        error_code=_VIOLATION,
        detail=_sentence(violation.errors, "the call breaks its contract"),
        errors=violation.errors,
    )


def invalid_request_answer(errors: Sequence[FieldErrorDocument], example: str) -> MockAnswer:
    """Return the answer to a call that does not fit the schema of its example."""
    return MockAnswer(
        status=400,
        outcome=CallOutcome.REJECTED,
        example=example,
        error_code=_INVALID,
        detail=_sentence(errors, "the request does not match the schema of the example"),
        errors=errors,
    )


def _sentence(errors: Sequence[FieldErrorDocument], what: str) -> str:
    first = errors[0]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    where = f"{first['pointer']}: " if first["pointer"] else ""
    return f"{what}: {where}{first['detail']}{more}"[:2_000]


def no_match_answer(operation: CompiledOperation, scope: Scope) -> MockAnswer:
    """Return the answer to a call that no example and no fallback answers."""
    return MockAnswer(
        status=404,
        outcome=CallOutcome.NO_MATCH,
        error_code="mock_no_match",
        detail=f"no example of {operation.operation.operation_id} matches, and it has no fallback",
        nearest=nearest_example(operation, scope.request, scope.state),
    )


def error_answer(error: PlatformError) -> MockAnswer:
    """Return the answer to a call that an error ends."""
    is_rejected = isinstance(error, _REJECTED) or error.problem_code == _INVALID
    outcome = CallOutcome.REJECTED if is_rejected else CallOutcome.ERROR
    return MockAnswer(
        status=PROBLEMS[error.problem_code],
        outcome=CallOutcome.NO_MATCH if isinstance(error, NotThere) else outcome,
        error_code=error.problem_code,
        detail=error.detail,
        errors=[each.as_dict() for each in error.errors],
    )
