"""Calls of mock methods: from the messages of a client to the messages of an example.

A unary method that is known is served as one, from prepared bytes if it answers every call alike.
Any other call is served as a stream of both sides, which is on the wire what every call is, because
its space may have to be loaded before the kind of the method is known.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, Final

import grpc

from kernel.errors import PlatformError
from mocks.errors import ShuttingDown
from mocks.grpc.methods import Metadata, Method, Methods
from mocks.grpc.statuses import (
    details_of,
    error_status,
    message_of,
    origin_of,
    sent_headers,
    status_of,
)
from mocks.journal.entries import NotedCall
from mocks.model.calls import MockAnswer, MockRequest
from mocks.plane.call_notes import CallNotes, answer_of
from mocks.plane.http_exchange import HttpExchange
from mocks.plane.http_requests import RequestHeaders, noted_headers
from mocks.plane.setup import PlaneSetup

logger: Final = logging.getLogger("partita.mocks")
UNARY_S: Final = 90.0  # an example may wait for 60
STREAM_S: Final = 600.0
MAX_REQUESTS: Final = 10_000  # messages of one client stream
_Unary = Callable[[bytes, Any], Awaitable[bytes]]


class Ended(Exception):
    """The call ends with a status that is not OK."""

    def __init__(self, status: Any, message: str, trailing: Any) -> None:
        super().__init__(message)
        self.status, self.message, self.trailing = status, message, trailing


class MockHandler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers each path below every service that has no handler of its own."""

    def __init__(self, setup: PlaneSetup, methods: Methods) -> None:
        self._setup = setup
        self._methods = methods
        self._notes = CallNotes(setup)

    def service(self, handler_call_details: Any) -> Any:
        path, metadata = handler_call_details.method, handler_call_details.invocation_metadata
        method = self._methods.find_loaded(path, metadata)
        if method is not None and method.proto.is_unary and not self._setup.is_draining():
            method.handler = method.handler or self._unary(method)
            return method.handler
        call = _Call(self, path, metadata)
        return grpc.stream_stream_rpc_method_handler(call.stream)

    def _unary(self, method: Method) -> Any:
        behavior = self._answer(method) if method.ready is None else self._ready_answer(method)
        return grpc.unary_unary_rpc_method_handler(behavior)

    def _answer(self, method: Method) -> _Unary:
        """Return what serves a unary method whose answers differ."""

        async def answer(request: bytes, context: Any) -> bytes:
            call = _Call(self, method.path, context.invocation_metadata() or ())
            try:
                async with asyncio.timeout(UNARY_S):
                    (message,) = await call.answer_message(method, request, context)
            except Exception as error:
                await end(context, error, method.path)
                raise
            return message

        return answer

    def _ready_answer(self, method: Method) -> _Unary:
        """Return what serves a unary method that answers every call alike."""
        assert method.ready is not None
        assert method.answer is not None
        (content,), answer, check = method.ready, method.answer, method.codec.check_request
        headers, origin = method.headers, method.origin
        operation, journal = method.operation, self._setup.journal
        record = self._notes.recorder(operation.adapter, operation.dispatcher, answer.outcome)
        space, path, own_cookies = method.space.text, method.path, self._setup.own_cookies
        named = (operation.surface.surface_id, operation.operation.operation_id, answer.example)

        async def answer_at_once(request: bytes, context: Any) -> bytes:
            started = time.monotonic()
            try:
                check(request)
            except PlatformError as error:
                await abort(context, error_end(error))
            if headers:
                await context.send_initial_metadata(headers)
            if origin:
                context.set_trailing_metadata(origin)
            duration_ms = (time.monotonic() - started) * 1000
            record(duration_ms)
            noted = _NotedMetadata(context.invocation_metadata(), own_cookies)
            journal.add(
                space,
                NotedCall(
                    journal.next_id(), time.time(), "POST", path, *named,
                    answer.outcome, answer.status, duration_ms, noted, b"",
                ),
            )  # fmt: skip
            return content

        return answer_at_once

    async def answer_message(
        self, method: Method, content: bytes, exchange: HttpExchange
    ) -> tuple[MockAnswer, tuple[bytes, ...]]:
        """Answer a message; return the answer and its messages. Raise Ended."""
        request = None
        try:
            exchange.raw_body = await method.codec.request_json(content)
            request = MockRequest(
                "POST",
                method.path,
                headers=RequestHeaders(exchange.headers, self._setup.own_cookies),
                raw_body=exchange.raw_body,
            )
            answer = await self._setup.engine.answer(method.operation, request)
            if answer.delay_ms:
                await asyncio.sleep(answer.delay_ms / 1000)
            status = status_of(answer)
            messages: tuple[bytes, ...] = ()
            if status is grpc.StatusCode.OK:
                messages = await method.codec.answer_messages(answer.body)
        except PlatformError as error:
            answer, ended = answer_of(error), error_end(error)
            exchange.status = answer.status
            self._notes.note(exchange, answer, request)
            raise ended from None
        exchange.status = answer.status
        self._notes.note(exchange, answer, request)
        if status is not grpc.StatusCode.OK:
            raise _answer_end(answer, status)
        return answer, messages

    async def method_of(self, path: str, metadata: Metadata) -> Method:
        if self._setup.is_draining():
            raise ShuttingDown
        return await self._methods.find(path, metadata)


class _Call:
    """A call that is served as a stream of both sides."""

    def __init__(self, handler: MockHandler, path: str, metadata: Metadata) -> None:
        self._handler = handler
        self._path = path
        self._metadata = metadata
        self._has_sent_headers = False

    async def stream(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        try:
            method = await self._handler.method_of(self._path, self._metadata)
            async with asyncio.timeout(UNARY_S if method.proto.is_unary else STREAM_S):
                async for content in self._contents(method, requests):
                    for message in await self.answer_message(method, content, context):
                        yield message
        except Exception as error:  # noqa: BLE001 - the edge: nothing may pass it
            await end(context, error, self._path)

    async def _contents(
        self, method: Method, requests: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        """Yield the messages that are answered: each, or the last where one answer is due."""
        proto = method.proto
        answers_each = proto.streams_requests and proto.streams_responses
        last, count = None, 0
        async for content in requests:
            count += 1
            if count > MAX_REQUESTS:
                raise Ended(
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    f"a stream has at most {MAX_REQUESTS} messages",
                    (),
                )
            last = content
            if answers_each:
                yield content
            elif not proto.streams_requests:
                break
        if answers_each:
            return
        if last is None and not proto.streams_requests:
            raise Ended(grpc.StatusCode.INVALID_ARGUMENT, "the call has no message", ())
        yield last or b""

    async def answer_message(self, method: Method, content: bytes, context: Any) -> Iterable[bytes]:
        """Answer a message and send the headers; return the messages of the answer. Raise Ended."""
        exchange = self._exchange(method)
        answer, messages = await self._handler.answer_message(method, content, exchange)
        headers = () if self._has_sent_headers else sent_headers(answer.headers)
        if headers:
            await context.send_initial_metadata(headers)
        self._has_sent_headers = True
        context.set_trailing_metadata(origin_of(answer))
        return messages

    def _exchange(self, method: Method) -> HttpExchange:
        """Return the call as the journal and the metrics see one."""
        headers = list(_encode_metadata(self._metadata))
        scope = {"method": "POST", "path": self._path, "raw_path": self._path.encode(),
                 "headers": headers, "query_string": b""}  # fmt: skip
        exchange = HttpExchange(
            scope, _nothing, _nothing, started=time.monotonic(), given=dict(headers), request_id=b""
        )
        exchange.kind, exchange.space = "grpc", method.space.text
        exchange.operation, exchange.surface_id = (
            method.operation,
            method.operation.surface.surface_id,
        )
        exchange.below = method.path
        return exchange


async def _nothing(*_arguments: Any) -> Any:
    """Stand for the two directions of HTTP, which a call of gRPC does not have."""


def error_end(error: PlatformError) -> Ended:
    """Return the end of a call by an error."""
    status = error_status(error)
    errors = [each.as_dict() for each in error.errors]
    details = details_of(status.value[0], error.detail, error.problem_code, errors)
    origin = (("x-partita-mock-error", error.problem_code),)
    return Ended(status, error.detail, origin + details)


def _answer_end(answer: MockAnswer, status: Any) -> Ended:
    message = message_of(answer)
    trailing = sent_headers(answer.headers) + origin_of(answer)
    if answer.error_code:
        trailing += details_of(status.value[0], message, answer.error_code, answer.errors)
    return Ended(status, message, trailing)


async def end(context: Any, error: Exception, path: str) -> None:
    """End a call with the status of an error."""
    if isinstance(error, TimeoutError):
        error = Ended(grpc.StatusCode.DEADLINE_EXCEEDED, "the call took too long", ())
    elif isinstance(error, PlatformError):
        error = error_end(error)
    elif not isinstance(error, Ended):
        logger.error("The call of %s failed", path[:300], exc_info=error)
        error = Ended(grpc.StatusCode.INTERNAL, "an internal error occurred; the log has it", ())
    await abort(context, error)


async def abort(context: Any, ended: Ended) -> None:
    await context.abort(ended.status, ended.message, ended.trailing)


def _encode_metadata(metadata: Metadata) -> Iterator[tuple[bytes, bytes]]:
    for key, value in metadata:
        yield key.encode(), value if isinstance(value, bytes) else value.encode()


class _NotedMetadata:
    """The metadata of a call as headers for the journal, made when they are read."""

    __slots__ = ("_metadata", "_own_cookies")

    def __init__(self, metadata: Any, own_cookies: frozenset[str]) -> None:
        self._metadata = metadata
        self._own_cookies = own_cookies

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        headers = list(_encode_metadata(self._metadata))
        return iter(noted_headers(headers, dict(headers), self._own_cookies))
