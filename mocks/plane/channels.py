"""Subscriptions to async operations: what is published to whom, and when it is over.

    GET /mocks/channels/{space}/{surfaceId}/{operationId}[?interval=500ms]     (also as WebSocket)

Who subscribes gets the examples of the operation that match, once or again at each interval.
`channel_wires` carries them. A subscriber needs no credentials. (reference: control-plane 18.8)
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from kernel.durations import parse_duration_ms
from kernel.errors import PlatformError
from mocks.engine.engine import error_answer
from mocks.engine.publication import publish_round
from mocks.errors import NothingHere, OperationNotFound, ShuttingDown
from mocks.model.calls import MockAnswer, MockRequest
from mocks.plane.call_notes import CallNotes
from mocks.plane.http_exchange import HttpExchange
from mocks.plane.http_requests import RequestHeaders, parse_query
from mocks.plane.http_responses import Headers
from mocks.plane.setup import AccessRules, PlaneSetup

if TYPE_CHECKING:
    from mocks.engine.tables import CompiledOperation
    from mocks.model.spaces import SpaceName

PREFIX: Final = "/mocks/channels/"
SUBSCRIBE: Final = "SUBSCRIBE"  # the methods of these calls in the journal
MESSAGE: Final = "MESSAGE"
INTERVAL: Final = "interval"
NO_MATCH: Final = "mock_no_match"
LOOK_S: Final = 1.0  # so often a subscription asks whether its space still exists
_LOWEST_MS, _HIGHEST_MS = 50, 3_600_000
_PARTS: Final = 3
# Of the handshake: no condition is about them.
_OF_THE_WIRE: Final = ("connection", "upgrade", "sec-websocket-")


class IntervalInvalid(PlatformError):
    code = "invalid_parameter"


class TooManyChannels(PlatformError):
    code = "too_many_streams"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelLimits:
    """What subscribers may take of this process."""

    connections: int = 1_000
    connections_of_space: int = 100
    message_bytes: int = 2**20  # of a message of a client
    waiting_answers: int = 100  # of one client, for their delay
    idle_s: float = 300.0  # a WebSocket without a message in either direction is closed
    send_s: float = 10.0  # a client that takes no message for so long is left
    ping_s: float = 15.0


@dataclass(slots=True, kw_only=True)
class Subscription:
    """What a client has subscribed to; `exchange` is how it asked."""

    name: SpaceName
    surface_id: str
    operation: CompiledOperation
    request: MockRequest
    exchange: HttpExchange
    interval_s: float
    listens: bool  # the client may send messages


class Channels:
    """The subscriptions of this process."""

    def __init__(self, setup: PlaneSetup, *, limits: ChannelLimits | None = None) -> None:
        self.limits = limits or ChannelLimits()
        self._setup = setup
        self._access = AccessRules(setup)
        self.security: Headers = setup.common_headers()
        self._notes = CallNotes(setup)
        self._open: Counter[str] = Counter()
        self._is_closed = False
        self._waiters: set[asyncio.Future[None]] = set()

    def close(self) -> None:
        """End every subscription at once and refuse further ones; from any thread."""
        self._is_closed = True
        for waiter in tuple(self._waiters):
            waiter.get_loop().call_soon_threadsafe(_wake, waiter)

    @property
    def is_closing(self) -> bool:
        return self._is_closed or self._setup.is_draining()

    async def subscription(self, exchange: HttpExchange) -> Subscription:
        """Return what an address subscribes to; raise PlatformError."""
        if self.is_closing:
            raise ShuttingDown
        parts = exchange.path.removeprefix(PREFIX).split("/")
        if len(parts) != _PARTS or not all(parts):
            raise NothingHere
        name = self._access.authorize_space(exchange.given, parts[0])
        query = parse_query(exchange.scope.get("query_string", b""))
        interval = query.pop(INTERVAL, "")
        surface_id, text = unquote(parts[1]), unquote(parts[2])
        exchange.kind, exchange.space, exchange.below = "async", str(name), f"/{text}"
        operation = await self._operation(name, surface_id, text)
        exchange.surface_id, exchange.operation = surface_id, operation
        headers = RequestHeaders(exchange.headers, self._setup.own_cookies)
        request = MockRequest(
            "GET",
            exchange.below,
            headers={k: v for k, v in headers.items() if not k.startswith(_OF_THE_WIRE)},
            query=query,
            raw_query=exchange.scope.get("query_string", b"").decode("latin-1"),
        )
        return Subscription(
            name=name,
            surface_id=surface_id,
            operation=operation,
            request=request,
            exchange=exchange,
            interval_s=_interval_ms(interval) / 1000 if interval else 0.0,
            listens=exchange.scope["type"] == "websocket",
        )

    @contextmanager
    def count_connection(self, subscription: Subscription) -> Iterator[None]:
        """Count a connection while it is open; raise TooManyChannels."""
        space, limits = str(subscription.name), self.limits
        if self._open[space] >= limits.connections_of_space:
            raise TooManyChannels(f"{limits.connections_of_space} channels of this space are open")
        if self._open.total() >= limits.connections:
            raise TooManyChannels(f"{limits.connections} channels of this server are open")
        self._open[space] += 1
        try:
            yield
        finally:
            self._open[space] -= 1
            if not self._open[space]:
                del self._open[space]

    async def is_over(self, subscription: Subscription) -> bool:
        """Return whether the process stops, or the space has gone as that of a run that ended."""
        if self.is_closing:
            return True
        spaces, text = self._setup.spaces, str(subscription.name)
        return spaces.get(text, time.monotonic()) is None and await spaces.load(text) is None

    async def messages(self, subscription: Subscription) -> AsyncGenerator[MockAnswer | None]:
        """Yield what is published, each after its delay; None at least each second of waiting.

        An answer of Partita itself, such as a constraint that failed, is the last one.
        """
        is_first = True
        while True:
            began = time.monotonic()
            async for answer in self._round(subscription, is_noted=is_first):
                yield answer
                if answer and answer.error_code:
                    return
            is_first = False
            if not subscription.interval_s:
                return
            rest = began + subscription.interval_s - time.monotonic()
            async for _ in self._waiting(subscription, rest):
                yield None
            if await self.is_over(subscription):
                return

    async def reaction(self, subscription: Subscription, body: bytes) -> MockAnswer:
        """Return the answer to a message of the client, as the HTTP form gives it."""
        began = time.monotonic()
        heard = subscription.request
        request = MockRequest(
            "POST",
            heard.path,
            headers=heard.headers,
            query=heard.query,
            raw_body=body,
            raw_query=heard.raw_query,
        )
        try:
            operation = await self._current(subscription)
        except PlatformError as error:
            return error_answer(error)
        answer = await self._setup.engine.answer(operation, request)
        self._note(subscription, MESSAGE, answer, request, began)
        return answer

    async def _round(
        self, subscription: Subscription, *, is_noted: bool
    ) -> AsyncGenerator[MockAnswer | None]:
        """Yield each message of a round after its delay, and None while it is waited for."""
        began = time.monotonic()
        try:
            operation = await self._current(subscription)
        except PlatformError as error:  # an edit has removed it, or the space has gone
            yield error_answer(error)
            return
        async for answer in publish_round(self._setup.engine, operation, subscription.request):
            if subscription.listens and answer.error_code == NO_MATCH:
                return  # every example may be an answer to what the client says
            if is_noted:  # the first message stands for the subscription
                self._note(subscription, SUBSCRIBE, answer, subscription.request, began)
                is_noted = False
            async for _ in self._waiting(subscription, answer.delay_ms / 1000):
                yield None
            if await self.is_over(subscription):
                return
            yield answer

    async def _current(self, subscription: Subscription) -> CompiledOperation:
        """Return the operation as the suite has it now."""
        operation_id = subscription.operation.operation.operation_id
        subscription.operation = await self._operation(
            subscription.name, subscription.surface_id, operation_id
        )
        return subscription.operation

    async def _operation(self, name: SpaceName, surface_id: str, text: str) -> CompiledOperation:
        space = await self._setup.spaces.find(name)
        operation = space.compiled.find_surface(surface_id).find(text, "async")
        if operation is None:
            detail = f"the surface {surface_id} has no async operation {text[:300]}"
            raise OperationNotFound(detail)
        return operation

    async def _waiting(self, subscription: Subscription, seconds: float) -> AsyncGenerator[None]:
        until = time.monotonic() + seconds
        while (rest := until - time.monotonic()) > 0 and not await self.is_over(subscription):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await asyncio.wait([waiter], timeout=min(rest, LOOK_S))
            finally:
                self._waiters.discard(waiter)
            yield None

    def _note(
        self,
        subscription: Subscription,
        method: str,
        answer: MockAnswer,
        request: MockRequest,
        began: float,
    ) -> None:
        """Keep a subscription or a message in the journal."""
        asked = subscription.exchange
        exchange = HttpExchange(
            {**asked.scope, "method": method},
            asked.receive,
            asked.send,
            started=began,
            given=asked.given,
            request_id=asked.request_id,
        )
        exchange.kind, exchange.space, exchange.below = asked.kind, asked.space, asked.below
        exchange.surface_id, exchange.operation = asked.surface_id, subscription.operation
        exchange.raw_body, exchange.status = request.raw_body, answer.status
        self._notes.note(exchange, answer, request)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _interval_ms(text: str) -> int:
    try:
        interval = parse_duration_ms(text[:40])
    except ValueError as error:
        raise IntervalInvalid(f"{INTERVAL}: {error}") from None
    if not _LOWEST_MS <= interval <= _HIGHEST_MS:
        raise IntervalInvalid(f"{INTERVAL} must be from 50ms to 1h, not {text[:40]}")
    return interval
