"""What is kept of the calls of a plane: metrics and the journal."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from kernel.errors import PlatformError
from kernel.problems import PROBLEMS
from mocks.journal.entries import MAX_BODY_BYTES, NotedCall
from mocks.model.calls import CallOutcome, MockAnswer, MockRequest
from mocks.plane.callbacks import CallbackSender
from mocks.plane.http_exchange import HttpExchange
from mocks.plane.http_requests import RequestHeaders, noted_headers, parse_query
from mocks.plane.setup import PlaneSetup, Record

_NOT_FOUND, _SERVER_ERROR = 404, 500
_NO_MATCH: Final = "mock_no_match"
_NEAREST_A_SECOND: Final = 50  # of all unmatched calls: a flood of them costs no comparison
_NEAREST_BODY: Final = 64 * 2**10


class CallNotes:
    def __init__(self, setup: PlaneSetup) -> None:
        self._setup = setup
        self._journal = setup.journal
        self._callbacks = CallbackSender(setup)
        self._recorders: dict[tuple[str, str, CallOutcome], Record] = {}
        self._second = 0
        self._compared = 0

    def recorder(self, adapter: str, dispatcher: str, outcome: CallOutcome) -> Record:
        """Return who is told the durations of such calls."""
        key = (adapter, dispatcher, outcome)
        found = self._recorders.get(key)
        if found is None:
            found = self._setup.meter(adapter, dispatcher, outcome.value)
            self._recorders[key] = found
        return found

    def note(self, exchange: HttpExchange, answer: MockAnswer, request: MockRequest | None) -> None:
        """Count a call, keep it in the journal if its space is known, and send its callbacks."""
        duration_ms = (time.monotonic() - exchange.started) * 1000
        operation = exchange.operation
        adapter = operation.adapter if operation else exchange.kind
        dispatcher = operation.dispatcher if operation else ""
        self.recorder(adapter, dispatcher, answer.outcome)(duration_ms)
        if not exchange.space:
            return
        note = NotedCall(
            self._journal.next_id(),
            time.time(),
            exchange.method,
            exchange.below,
            exchange.surface_id,
            operation.operation.operation_id if operation else "",
            answer.example,
            answer.outcome,
            exchange.status,
            duration_ms,
            noted_headers(exchange.headers, exchange.given, self._setup.own_cookies),
            exchange.raw_body[:MAX_BODY_BYTES],
            _query(exchange, request),
            answer.state_key,
            self._nearest(exchange, answer, request),
            answer.contract_errors,
            answer.fault.kind if answer.fault else "",
        )
        self._journal.add(exchange.space, note)
        if answer.callbacks:
            self._callbacks.start(exchange, answer)

    def refusal_of(self, exchange: HttpExchange, error: PlatformError) -> MockAnswer:
        """Return what the journal and the metrics see of a refusal, with what was nearest."""
        answer = answer_of(error)
        answer.nearest = self._nearest(exchange, answer, None)
        return answer

    def _nearest(
        self, exchange: HttpExchange, answer: MockAnswer, request: MockRequest | None
    ) -> Mapping[str, Any] | None:
        """Return what an unmatched call was nearest to."""
        if answer.nearest is not None or answer.error_code == _NO_MATCH:
            return answer.nearest  # the engine has looked, unless the caller asked for another one
        target = exchange.operation or exchange.unmatched_of
        if answer.outcome is not CallOutcome.NO_MATCH or target is None or not self._may_compare():
            return None
        if len(exchange.raw_body) > _NEAREST_BODY:
            return None
        if request is None:
            request = MockRequest(
                exchange.method,
                exchange.below,
                headers=RequestHeaders(exchange.headers, self._setup.own_cookies),
                query=parse_query(exchange.scope.get("query_string", b"")),
            )
        return self._setup.nearest(target, request)

    def _may_compare(self) -> bool:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._compared = second, 0
        self._compared += 1
        return self._compared <= _NEAREST_A_SECOND


def _query(exchange: HttpExchange, request: MockRequest | None) -> bytes:
    """Return the query: that of the original call, where a gateway passes one on."""
    if request is not None:
        return request.raw_query.encode("latin-1", "replace")
    return exchange.scope.get("query_string") or b""


def answer_of(error: PlatformError) -> MockAnswer:
    """Return what the journal, the metrics and a gateway see of a refusal."""
    status = PROBLEMS[error.problem_code]
    if status == _NOT_FOUND:
        outcome = CallOutcome.NO_MATCH
    else:
        outcome = CallOutcome.ERROR if status >= _SERVER_ERROR else CallOutcome.REJECTED
    return MockAnswer(
        status=status, outcome=outcome, error_code=error.problem_code, detail=error.detail
    )
