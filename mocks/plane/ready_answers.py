"""Answers that are ready to be sent: those of operations whose answer depends on nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kernel.prepared_answers import STATUS_LINES, Prepared
from mocks.journal.entries import MAX_BODY_BYTES, NotedCall
from mocks.model.calls import CallOutcome, MockAnswer, MockRequest
from mocks.negotiation.prefer import QUERY_MARK
from mocks.plane import http_responses
from mocks.plane.call_notes import CallNotes
from mocks.plane.http_exchange import prepared_sender
from mocks.plane.http_requests import (
    ClientLeft,
    Receive,
    RequestHeaders,
    Scope,
    Send,
    has_body,
    noted_headers,
    read_body,
    request_id_of,
)
from mocks.plane.http_responses import CORS_ANSWER, Headers
from mocks.plane.known_routes import Route
from mocks.plane.setup import PlaneSetup, Record

if TYPE_CHECKING:
    from mocks.engine.tables import CompiledOperation
    from surfaces.contract_checks import OperationChecks

_QUERY_MARK: Final = QUERY_MARK.encode()
_MAX_ACCEPTED: Final = 32  # Accept headers of an operation whose answers are kept
_LONGEST_ACCEPT: Final = 1_000


@dataclass(slots=True, eq=False)
class ReadyAnswer:
    """An answer that depends on nothing, with what the journal and the metrics say of it.

    `head` is that of `kernel.prepared_answers`, without the id of the request and CORS. `checks`
    look at a call first.
    """

    status: int
    head: bytes
    body: bytes
    record: Record
    surface_id: str
    operation_id: str
    example: str
    outcome: CallOutcome
    checks: OperationChecks | None


class NotedRequest(NamedTuple):
    """A request whose body `asked` has arrived; `started` on the monotonic clock, in seconds."""

    method: str
    given: Mapping[bytes, bytes]
    headers: Headers
    asked: bytes
    query: bytes
    started: float


@dataclass(slots=True, eq=False)
class PreparedOperation:
    """What all answers of an operation have, and its one answer if it has one.

    `accepted` has it by `Accept` headers, None where nothing suits; it is None itself where
    `Accept` decides nothing.
    """

    common: Headers
    ready: ReadyAnswer | None
    accepted: dict[bytes, ReadyAnswer | None] | None


class ReadyAnswers:
    def __init__(self, setup: PlaneSetup, notes: CallNotes, security: Headers) -> None:
        self._journal = setup.journal
        self._engine = setup.engine
        self._own_cookies = setup.own_cookies
        self._notes = notes
        self._security = security
        self._reserved = setup.reserved_names()

    def prepare(self, operation: CompiledOperation) -> PreparedOperation:
        """Prepare the answers of an operation, once, and return what they have."""
        made: PreparedOperation | None = operation.prepared
        if made is None:
            common = http_responses.operation_headers(operation, self._security)
            ready = self._ready(operation, common, operation.static)
            accepted = {b"*/*": ready} if operation.is_negotiated else None
            made = operation.prepared = PreparedOperation(common, ready, accepted)
        return made

    def find(
        self, route: Route, given: Mapping[bytes, bytes], headers: Headers, query: bytes,
        body: bytes | None,
    ) -> ReadyAnswer | None:  # fmt: skip
        """Return the ready answer that suits a call, None where the engine has to look.

        `given` has the last value of each of the `headers`; a `body` of None has not arrived yet.
        """
        ready = self._find_accepted(route.operation, given, headers, query)
        if ready is None or ready.checks is None:
            return ready
        if body is None and has_body(given):
            return None
        request = MockRequest(
            route.operation.operation.method,
            route.below,
            headers=RequestHeaders(headers, self._own_cookies),
            params=route.params,
            raw_body=body or b"",
            raw_query=query.decode("latin-1"),
        )
        return ready if ready.checks.check(request) is None else None

    def _find_accepted(
        self, operation: CompiledOperation, given: Mapping[bytes, bytes], headers: Headers,
        query: bytes,
    ) -> ReadyAnswer | None:  # fmt: skip
        prepared: PreparedOperation = operation.prepared or self.prepare(operation)
        ready = prepared.ready
        if ready is None or b"prefer" in given or (query and _QUERY_MARK in query):
            return None
        accepted = prepared.accepted
        if accepted is None:
            return ready
        accept = given.get(b"accept", b"*/*")
        if len(given) != len(headers) and sum(name == b"accept" for name, _ in headers) > 1:
            return None
        if accept not in accepted:
            if len(accepted) >= _MAX_ACCEPTED or len(accept) > _LONGEST_ACCEPT:
                return None
            answer = operation.accepted_static(accept.decode("latin-1"))
            accepted[accept] = self._ready(operation, prepared.common, answer)
        return accepted[accept]

    def _ready(
        self, operation: CompiledOperation, common: Headers, answer: MockAnswer | None
    ) -> ReadyAnswer | None:
        if answer is None or answer.error_code or http_responses.has_site_headers(answer):
            return None
        status, headers, body = http_responses.mock_response(
            common, answer, on_site=True, reserved=self._reserved
        )
        return ReadyAnswer(
            status=status,
            head=STATUS_LINES[status] + http_responses.lines(headers),
            body=body,
            record=self._notes.recorder(operation.adapter, operation.dispatcher, answer.outcome),
            surface_id=operation.surface.surface_id,
            operation_id=operation.operation.operation_id,
            example=answer.example,
            outcome=answer.outcome,
            checks=self._engine.checks_of(operation),
        )

    async def send(
        self, ready: ReadyAnswer, route: Route, call: tuple[Scope, Receive, Send], *,
        given: Mapping[bytes, bytes], started: float,
    ) -> None:  # fmt: skip
        """Send an answer to the request of the ASGI arguments `call`, and note it.

        Raise BodyTooLarge and BodyTooSlow.
        """
        scope, receive, send = call
        try:
            asked = await read_body(scope, given, receive)
        except ClientLeft:
            return
        query = scope.get("query_string", b"")
        call_made = NotedRequest(scope["method"], given, scope["headers"], asked, query, started)
        head, body = self.make(ready, route, call_made)
        prepared = prepared_sender(scope)
        if prepared is None or not prepared(head, body):
            headers = _headers_of(head)
            await send({"type": "http.response.start", "status": ready.status, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    def make(self, ready: ReadyAnswer, route: Route, call: NotedRequest) -> Prepared:
        """Return head and body of an answer, and note the call."""
        method, given, headers, asked, query, started = call
        cors = http_responses.lines(CORS_ANSWER) if b"origin" in given else b""
        head = b"%bx-request-id: %b\r\n%b" % (ready.head, request_id_of(given), cors)
        duration_ms = (time.monotonic() - started) * 1000
        ready.record(duration_ms)
        note = NotedCall(
            self._journal.next_id(),
            time.time(),
            method,
            route.below,
            ready.surface_id,
            ready.operation_id,
            ready.example,
            ready.outcome,
            ready.status,
            duration_ms,
            noted_headers(headers, given, self._own_cookies),
            asked[:MAX_BODY_BYTES],
            query,
        )
        self._journal.add(route.space.text, note)
        return head, b"" if method == "HEAD" else ready.body


def _headers_of(head: bytes) -> Headers:
    """Return the headers of a head, without its status line, as ASGI sends them."""
    pairs = (line.split(b": ", 1) for line in head.split(b"\r\n")[1:-1])
    return [(name, value) for name, value in pairs]
