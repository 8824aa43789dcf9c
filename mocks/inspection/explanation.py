"""Why a call of a mock is answered as it is (reference: control-plane 18.1, explain)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kernel.errors import PlatformError
from mocks.engine.dispatch import Candidate
from mocks.engine.documents import (
    ExplainedCallback,
    ExplainedCandidate,
    ExplainedConstraint,
    ExplainedError,
    ExplainedOutcome,
    ExplainedResponse,
    ExplainedTransition,
    Explanation,
    delay_document,
    encoded_body,
    fault_document,
)
from mocks.engine.engine import Engine
from mocks.engine.nearest import MAX_SHOWN, condition_document
from mocks.engine.tables import CompiledOperation, OperationTables
from mocks.engine.transitions import NO_STATE, LookedUp, look_up
from mocks.model.calls import CallbackRequest, MockAnswer, MockRequest
from mocks.model.ports import Counter, ProxyAnswer, StateRecord, StateStore
from mocks.templates.scope import Scope
from surfaces.model import alternatives_of

MAX_BODY: Final = 256 * 2**10  # characters of the response
_INVALID: Final = "mock_request_invalid"


async def explain(
    engine: Engine,
    operation: CompiledOperation,
    request: MockRequest,
    *,
    defaults_only: bool = False,
) -> Explanation:
    """Return how a call would be answered, and why; change nothing and send nothing.

    `defaults_only`: as if no record and no counter existed.
    """
    state = _UnchangedState(engine.state, is_hidden=defaults_only)
    proxy = _UnsentProxy()
    trial = replace(engine, state=state, proxy=proxy)
    tables = operation.tables
    found = await _look_up_state(trial, operation, tables, request)
    answer = await trial.answer(operation, request)
    document: Explanation = {
        "operationId": operation.operation.operation_id,
        "constraints": _constraints(tables, request),
        "candidates": _candidates(operation, tables, request, found.fields),
        "dispatcher": operation.dispatcher,
        "schemaErrors": list(answer.errors) if answer.error_code == _INVALID else [],
    }
    if answer.contract_errors:
        document["contractErrors"] = list(answer.contract_errors)
    if answer.example and not answer.fallback:
        document["chosen"] = answer.example
    if answer.fallback:
        document["fallback"] = answer.fallback
    if found.key:
        document["stateKey"] = found.key
    if tables.state is not None:
        document["state"] = dict(found.fields)
    if answer.state_key and tables.state is not None:
        document["transition"] = _transition(tables, answer, state)
    if proxy.url or answer.error_code:
        return {**document, **_error_outcome(answer, proxy)}
    return {**document, "response": _response(answer, tables)}


async def _look_up_state(
    engine: Engine, operation: CompiledOperation, tables: OperationTables, request: MockRequest
) -> LookedUp:
    if tables.state is None:
        return NO_STATE
    scope = Scope(request, {}, "", engine.rng)
    try:
        return await look_up(tables.state, scope, engine.state, operation.space.key)
    except PlatformError:
        return NO_STATE  # the answer says why


def _constraints(tables: OperationTables, request: MockRequest) -> list[ExplainedConstraint]:
    listed: list[ExplainedConstraint] = []
    for each in tables.constraints:
        value = each.read(request)
        error = each.error(value)
        document: ExplainedConstraint = {
            "name": each.rule.name,
            "source": each.rule.source,
            "value": (value or "")[:MAX_SHOWN],
            "ok": error is None,
        }
        if value is None:
            del document["value"]
        if error is not None:
            document["detail"] = error["detail"]
        listed.append(document)
    return listed


def _candidates(
    operation: CompiledOperation,
    tables: OperationTables,
    request: MockRequest,
    state: Mapping[str, str],
) -> list[ExplainedCandidate]:
    """Return the examples in the order in which the dispatcher considers them."""
    candidates = tables.candidates
    compare = candidates.compare(request, state)
    listed: Sequence[Candidate] = candidates.listed
    if operation.dispatcher == "example":
        listed = sorted(listed, key=lambda each: -_size(each))
    documents: list[ExplainedCandidate] = []
    for each in listed:
        alternatives = compare(each)
        conditions = {one.condition: one for compared in alternatives for one in compared}
        documents.append(
            {
                "name": each.name,
                "order": each.order + 1,
                "conditions": [condition_document(one) for one in conditions.values()],
                "matched": not each.is_on_request
                and any(all(one.holds for one in compared) for compared in alternatives),
            }
        )
    return documents


def _size(candidate: Candidate) -> int:
    """Return how many conditions an example has, of alternatives that of the largest."""
    return max(len(set(each)) for each in alternatives_of(candidate.exchange.when))


def _transition(
    tables: OperationTables, answer: MockAnswer, state: _UnchangedState
) -> ExplainedTransition:
    transition = tables.state.transition(answer.example) if tables.state else None
    assert transition is not None, "a state key comes from a transition"
    document: ExplainedTransition = {"key": answer.state_key}
    if transition.rule.on_example:
        document["onExample"] = transition.rule.on_example
    fields = state.changes.get(answer.state_key)
    if fields is None:
        document["removed"] = True
    else:
        document["fields"] = dict(fields)
    return document


def _error_outcome(answer: MockAnswer, proxy: _UnsentProxy) -> ExplainedOutcome:
    if proxy.url:
        return {"proxyUrl": proxy.url}
    error: ExplainedError = {"code": answer.error_code, "detail": answer.detail}
    if answer.errors:
        error["errors"] = list(answer.errors)
    if answer.nearest is not None:
        error["nearest"] = dict(answer.nearest)
    return {"error": error}


def _response(answer: MockAnswer, tables: OperationTables) -> ExplainedResponse:
    headers: dict[str, list[str]] = {}
    for name, value in answer.headers:
        headers.setdefault(name, []).append(value)
    response: ExplainedResponse = {
        "status": answer.status,
        "mediaType": answer.media_type,
        "headers": headers,
        "body": answer.body[: MAX_BODY * 4].decode(errors="replace")[:MAX_BODY],
        "delayMillis": answer.delay_ms,
    }
    if encoded := encoded_body(answer.body):
        response["bodyBase64"] = encoded[:MAX_BODY]
    if answer.fault is not None:
        response["fault"] = fault_document(answer.fault)
    if answer.grpc_status is not None:
        response["grpcStatus"] = answer.grpc_status
    chosen = tables.candidates.by_name.get(answer.example)
    if chosen is not None and not chosen.response.delay.is_fixed:
        response["delay"] = delay_document(chosen.response.delay)
    if answer.callbacks:
        response["callbacks"] = [_callback(each) for each in answer.callbacks]
    return response


def _callback(make: Callable[[], CallbackRequest]) -> ExplainedCallback:
    try:
        made = make()
    except PlatformError as error:
        return {"detail": error.detail}
    return {"method": made.method, "url": made.url}


@dataclass(slots=True)
class _UnchangedState:
    """A state store that only reads; what would be changed is kept in `changes`."""

    store: StateStore
    is_hidden: bool
    changes: dict[str, Mapping[str, str] | None] = field(default_factory=dict)

    @property
    def waits(self) -> bool:
        return self.store.waits

    async def read(self, space: str, key: str) -> StateRecord | None:
        return None if self.is_hidden else await self.store.read(space, key)

    async def change(
        self,
        _space: str,
        key: str,
        _surface_id: str,
        *,
        version: int,
        fields: Mapping[str, str] | None,
    ) -> bool:
        self.changes[key] = fields
        return True

    async def draw(self, space: str, surface_id: str, operation_id: str) -> int:
        place = (surface_id, operation_id)
        for each in await self.counters(space):
            if (each.surface_id, each.operation_id) == place:
                return each.value
        return 0

    async def records(self, space: str, *, key: str = "") -> Sequence[StateRecord]:
        return () if self.is_hidden else await self.store.records(space, key=key)

    async def counters(self, space: str) -> Sequence[Counter]:
        return () if self.is_hidden else await self.store.counters(space)

    async def reset(self, _space: str, *, surface_id: str = "", key: str = "") -> int:
        return 0


@dataclass(slots=True)
class _UnsentProxy:
    """A proxy that sends nothing and keeps where a request would go."""

    url: str = ""

    async def forward(
        self, url: str, *, method: str, headers: Mapping[str, str], body: bytes,
        let_through: frozenset[str],
    ) -> ProxyAnswer:  # fmt: skip
        self.url = url
        return ProxyAnswer(status=200, media_type="", headers=(), body=b"")
