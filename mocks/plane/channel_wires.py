"""What carries a channel to a client: server-sent events and WebSockets, as plain ASGI.

No consumer of the channels library: that needs Django's settings, which `mock serve` does not have
(docs/decisions/0039-channels-of-mocks-are-plain-asgi.md). (reference: control-plane 18.8)
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import unquote

from kernel.errors import PlatformError
from kernel.problems import PROBLEMS, problem_document
from mocks.errors import MethodNotAllowed
from mocks.model.calls import MockAnswer
from mocks.plane.channels import LOOK_S, Channels, Subscription
from mocks.plane.http_exchange import HttpExchange
from mocks.plane.http_requests import Message, Receive, Scope, Send
from mocks.plane.http_responses import CORS, Headers, operation_headers

logger = logging.getLogger("partita.mocks")
NORMAL: Final = 1000
GOING_AWAY: Final = 1001
TOO_LARGE: Final = 1009
ERROR: Final = 1011
REFUSED: Final = 4000  # + the HTTP status of the problem, as for the records of runs
CONNECTED: Final = b": connected\n\n"
PING: Final = b": ping\n\n"
_METHODS: Final = (b"GET", b"HEAD", b"OPTIONS")
_OVER: Final = "space_not_active"
_OK, _EMPTY = 200, 204
_STREAM: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
_INTERNAL: Final = "an internal error occurred; the log has it under the request's id"


class ChannelsApp:
    """The ASGI application of /mocks/channels/, for `http` and `websocket`."""

    def __init__(self, channels: Channels) -> None:
        self.channels = channels
        self._security = channels.security

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection: the fault barrier of this edge."""
        given = dict(scope["headers"])
        exchange = HttpExchange(
            scope if scope["type"] == "http" else {**scope, "method": "GET"},
            receive,
            send,
            started=time.monotonic(),
            given=given,
        )
        try:
            if scope["type"] == "websocket":
                await _serve_socket(self.channels, exchange, self._security)
            else:
                await self._serve_events(exchange)
        except (TimeoutError, OSError):
            return  # the client has gone, or reads too slowly to be waited for

    async def _serve_events(self, exchange: HttpExchange) -> None:
        try:
            await self._answer(exchange)
        except PlatformError as error:
            await self._refuse(exchange, error)
        except OSError:
            raise
        except Exception:  # the edge: nothing may pass it
            logger.exception("a channel failed (request %s)", exchange.request_id.decode())
            if exchange.status:
                raise
            await self._refuse(exchange, PlatformError(_INTERNAL))

    async def _answer(self, exchange: HttpExchange) -> None:
        if exchange.method == "OPTIONS":
            asked = exchange.given.get(b"access-control-request-headers", b"")
            await exchange.preflight(self._security, asked)
            return
        if exchange.method.encode() not in _METHODS:
            raise MethodNotAllowed(b", ".join(_METHODS))
        subscription = await self.channels.subscription(exchange)
        common = operation_headers(subscription.operation, self._security)
        with self.channels.count_connection(subscription):
            if exchange.method == "HEAD":
                await exchange.reply(_OK, [*common, *_STREAM], b"")
            elif _has_had_all(exchange, subscription):
                await exchange.reply(_EMPTY, common, b"")
            else:
                await EventSubscription(self.channels, subscription).run([*common, *_STREAM])

    async def _refuse(self, exchange: HttpExchange, error: PlatformError) -> None:
        common = self._security
        if isinstance(error, MethodNotAllowed):
            common = [*common, (b"allow", error.methods)]
        await exchange.refuse(error, common, error.members.get("errors", ()))


def _has_had_all(exchange: HttpExchange, subscription: Subscription) -> bool:
    """Return whether an EventSource comes back after the end; only a 204 makes it stay away."""
    return not subscription.interval_s and bool(exchange.given.get(b"last-event-id"))


class EventSubscription:
    """One subscription over server-sent events."""

    def __init__(self, channels: Channels, subscription: Subscription) -> None:
        self._channels = channels
        self._subscription = subscription
        self._exchange = subscription.exchange
        self._written_at = time.monotonic()
        self._count = 0

    async def run(self, headers: Headers) -> None:
        """Publish until the end; raise PlatformError for what stops it before the first byte."""
        gone = asyncio.create_task(_wait_until_gone(self._exchange.receive))
        try:
            async with aclosing(self._channels.messages(self._subscription)) as messages:
                first = await anext(messages, None)
                if first is not None and first.error_code:
                    raise _as_error(first)
                await self._begin(headers)
                await self._publish(first)
                async for answer in messages:
                    if gone.done() or not await self._publish(answer):
                        break
            if not gone.done():
                await self._end()
        finally:
            gone.cancel()

    async def _begin(self, headers: Headers) -> None:
        exchange = self._exchange
        exchange.status = _OK
        shown = [*headers, (b"x-request-id", exchange.request_id)]
        if exchange.has_origin:
            shown += [*CORS, (b"vary", b"Origin")]
        await exchange.send({"type": "http.response.start", "status": _OK, "headers": shown})
        await self._write(CONNECTED)

    async def _publish(self, answer: MockAnswer | None) -> bool:
        """Return False after what ends the subscription."""
        if answer is None:
            if time.monotonic() - self._written_at >= self._channels.limits.ping_s:
                await self._write(PING)
            return True
        if answer.error_code:
            await self._write(_named_frame("error", _problem(answer, self._subscription)))
            return False
        self._count += 1
        await self._write(event_frame(self._count, answer))
        return True

    async def _end(self) -> None:
        if not await self._channels.is_over(self._subscription):
            await self._write(_named_frame("end", {"lastId": self._count}))
        await self._exchange.send({"type": "http.response.body", "body": b""})

    async def _write(self, frame: bytes) -> None:
        self._written_at = time.monotonic()
        async with asyncio.timeout(self._channels.limits.send_s):
            await self._exchange.send(
                {"type": "http.response.body", "body": frame, "more_body": True}
            )


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _serve_socket(channels: Channels, exchange: HttpExchange, security: Headers) -> None:
    """Serve a WebSocket. What refuses it is a close code: a browser shows no status."""
    await exchange.receive()  # websocket.connect
    headers = [*security, (b"x-request-id", exchange.request_id)]
    accept = {"type": "websocket.accept", "headers": headers}
    try:
        subscription = await channels.subscription(exchange)
        with channels.count_connection(subscription):
            accept["headers"] = [*headers, *operation_headers(subscription.operation, [])]
            await exchange.send(accept)
            closing = await _serve(channels, subscription)
    except PlatformError as error:
        await exchange.send(accept)
        closing = _refusal(error)
    if closing is not None:
        await exchange.send(closing)


async def _serve(channels: Channels, subscription: Subscription) -> Message | None:
    try:
        return await Socket(channels, subscription).run()
    except OSError:
        raise
    except Exception:  # the edge: nothing may pass it
        request_id = subscription.exchange.request_id.decode()
        logger.exception("a channel failed (request %s)", request_id)
        return _closing(ERROR)


def _closing(code: int, reason: str = "") -> Message:
    return {"type": "websocket.close", "code": code, "reason": reason}


def _refusal(error: PlatformError) -> Message:
    return _closing(REFUSED + PROBLEMS[error.problem_code], error.problem_code)


class Socket:
    """One subscription over a WebSocket: what is published, and answers to the client's messages.

    Answers wait for their delay without holding up what comes after them.
    """

    def __init__(self, channels: Channels, subscription: Subscription) -> None:
        self._channels = channels
        self._subscription = subscription
        self._receive = subscription.exchange.receive
        self._send = subscription.exchange.send
        self._used_at = time.monotonic()
        self._tasks: set[asyncio.Task[Message | None]] = set()

    async def run(self) -> Message | None:
        """Return what closes the socket, None when the client has; raise OSError, TimeoutError."""
        reading = asyncio.create_task(self._read())
        self._tasks = {reading, asyncio.create_task(self._publish_all())}
        try:
            while (closing := await self._end()) is None:
                done, _ = await asyncio.wait(
                    self._tasks, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED
                )
                self._tasks -= done
                closings = [each for each in (task.result() for task in done) if each]
                if closings or reading in done:
                    return closings[0] if closings else None
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        return closing

    async def _end(self) -> Message | None:
        """Return what ends the subscription from this side, if anything does."""
        if self._channels.is_closing:
            return _closing(GOING_AWAY)
        if await self._channels.is_over(self._subscription):
            return _closing(REFUSED + PROBLEMS[_OVER], _OVER)
        is_idle = time.monotonic() - self._used_at > self._channels.limits.idle_s
        if is_idle and not self._subscription.interval_s:
            return _closing(NORMAL, "idle")
        return None

    async def _publish_all(self) -> Message | None:
        """Publish; return what closes the socket if the subscription cannot be served."""
        async with aclosing(self._channels.messages(self._subscription)) as messages:
            async for answer in messages:
                if answer is not None and answer.error_code:
                    return _refusal(_as_error(answer))
                if answer is not None:
                    await self._deliver(answer)
        return None

    async def _read(self) -> Message | None:
        """Answer the client's messages until it goes; return what closes the socket."""
        while (message := await self._receive())["type"] != "websocket.disconnect":
            body = message.get("bytes")
            if body is None:
                body = message.get("text", "").encode()
            if len(body) > self._channels.limits.message_bytes:
                return _closing(TOO_LARGE)
            self._used_at = time.monotonic()
            answer = await self._channels.reaction(self._subscription, body)
            waits = len(self._tasks) < self._channels.limits.waiting_answers
            if answer.delay_ms and waits:
                self._tasks.add(asyncio.create_task(self._deliver_later(answer)))
            else:
                await self._deliver_later(answer)
        return None

    async def _deliver_later(self, answer: MockAnswer) -> Message | None:
        if answer.delay_ms:
            await asyncio.sleep(answer.delay_ms / 1000)
        await self._deliver(answer)
        return None

    async def _deliver(self, answer: MockAnswer) -> None:
        """Send a message, the problem document of a call that has none; nothing for no body."""
        body = answer.body
        if answer.error_code:
            body = json.dumps(_problem(answer, self._subscription)).encode()
        if not body:
            return
        self._used_at = time.monotonic()
        async with asyncio.timeout(self._channels.limits.send_s):
            try:
                await self._send({"type": "websocket.send", "text": body.decode()})
            except UnicodeDecodeError:
                await self._send({"type": "websocket.send", "bytes": body})


def event_frame(number: int, answer: MockAnswer) -> bytes:
    """Return a message as an event; its comment names the example."""
    text = answer.body.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    data = "".join(f"data: {line}\n" for line in text.split("\n"))
    example = "".join(each if each.isprintable() else "?" for each in answer.example)
    return f": example {example}\nid: {number}\n{data}\n".encode()


def _named_frame(event: str, document: Mapping[str, Any]) -> bytes:
    return f"event: {event}\ndata: {json.dumps(document)}\n\n".encode()


def _as_error(answer: MockAnswer) -> PlatformError:
    members = {"errors": [dict(each) for each in answer.errors]} if answer.errors else {}
    return PlatformError(answer.detail, code=answer.error_code, members=members)


def _problem(answer: MockAnswer, subscription: Subscription) -> dict[str, Any]:
    exchange = subscription.exchange
    path, request_id = unquote(exchange.path), exchange.request_id.decode()
    return problem_document(_as_error(answer), instance=path, request_id=request_id)
