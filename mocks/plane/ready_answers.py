"""Answers that are ready to be sent: those of operations whose answer depends on nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernel.prepared_answers import STATUS_LINES
from mocks.journal.entries import MAX_BODY_BYTES, NotedCall
from mocks.model.calls import CallOutcome, MockRequest
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


@dataclass(slots=True, eq=False)
class ReadyAnswer:
    """An answer that depends on nothing, with what the journal and the metrics say of it.

    `head` is that of `kernel.prepared_answers`, without the request's id and CORS. `checks` look at
    a call first.
    """

    status: int
    headers: Headers
    head: bytes
    body: bytes
    record: Record
    surface_id: str
    operation_id: str
    example: str
    outcome: CallOutcome
    checks: OperationChecks | None


@dataclass(slots=True, eq=False)
class PreparedOperation:
    """What all answers of an operation have, and its one answer if it has one."""

    common: Headers
    ready: ReadyAnswer | None


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
        made = operation.prepared
        if made is None:
            common = http_responses.operation_headers(operation, self._security)
            made = operation.prepared = PreparedOperation(common, self._ready(operation, common))
        assert isinstance(made, PreparedOperation)
        return made

    def _ready(self, operation: CompiledOperation, common: Headers) -> ReadyAnswer | None:
        answer = operation.static
        if answer is None or answer.error_code or http_responses.has_site_headers(answer):
            return None
        status, headers, body = http_responses.mock_response(
            common, answer, on_site=True, reserved=self._reserved
        )
        return ReadyAnswer(
            status=status,
            headers=headers,
            head=STATUS_LINES[status] + http_responses.lines(headers),
            body=body,
            record=self._notes.recorder(operation.adapter, operation.dispatcher, answer.outcome),
            surface_id=operation.surface.surface_id,
            operation_id=operation.operation.operation_id,
            example=answer.example,
            outcome=answer.outcome,
            checks=self._engine.checks_of(operation),
        )

    def suits(
        self, ready: ReadyAnswer, route: Route, scope: Scope, given: Mapping[bytes, bytes]
    ) -> bool:
        """Return whether nothing is wrong with a call; one with a body is left to the engine."""
        if ready.checks is None:
            return True
        if has_body(given):
            return False
        request = MockRequest(
            scope["method"],
            route.below,
            headers=RequestHeaders(scope["headers"], self._own_cookies),
            params=route.params,
            raw_query=scope.get("query_string", b"").decode("latin-1"),
        )
        return ready.checks.check(request) is None

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
        request_id = request_id_of(given)
        cors = CORS_ANSWER if b"origin" in given else []
        body = b"" if scope["method"] == "HEAD" else ready.body
        head = b"%bx-request-id: %b\r\n%b" % (ready.head, request_id, http_responses.lines(cors))
        prepared = prepared_sender(scope)
        if prepared is None or not prepared(head, body):
            headers = [*ready.headers, (b"x-request-id", request_id), *cors]
            start = {"type": "http.response.start", "status": ready.status, "headers": headers}
            await send(start)
            await send({"type": "http.response.body", "body": body})
        duration_ms = (time.monotonic() - started) * 1000
        ready.record(duration_ms)
        note = NotedCall(
            self._journal.next_id(),
            time.time(),
            scope["method"],
            route.below,
            ready.surface_id,
            ready.operation_id,
            ready.example,
            ready.outcome,
            ready.status,
            duration_ms,
            noted_headers(scope["headers"], given, self._own_cookies),
            asked[:MAX_BODY_BYTES],
        )
        self._journal.add(route.space.text, note)
