"""uvicorn's HTTP/1.1 protocol with limits on request heads and JSON errors for bad requests."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from sync_stack.gateway.requests import CONNECTION, RawHeaders
from sync_stack.gateway.responses import Code, error_body
from sync_stack.rpc.http_thread import Scope

HEAD_TIMEOUT_S: Final = 10.0
MAX_HEAD_BYTES: Final = 64 * 2**10
MAX_CONNECTIONS: Final = 10_000
_SLACK: Final = 2**12  # of line ends and spaces between headers
_NEVER: Final = float("inf")


class HeadTooLarge(Exception):
    """Ends the parsing of a request."""


class GatewayProtocol(HttpToolsProtocol):
    """Refuses heads of more than 64 KiB or 10 s; it is the Connection of its requests.

    One timer checks the current deadline. A new deadline sets it only if no timer fires earlier,
    and a timer that fires early is set again: two timers for each request would cost more.
    """

    _in_head = True
    _head_bytes = 0
    _head_is_timed = True  # the first one, since the connection was made
    _deadline = _NEVER
    _extensions: dict[str, Any]
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._extensions = {CONNECTION: self}
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
            return
        self._close_at(self.loop.time() + HEAD_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline = _NEVER
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if not self._in_head or not self._head_bytes:
            return
        if self._head_bytes > MAX_HEAD_BYTES + _SLACK:
            self.send_400_response("the request head is too large")
        elif not self._head_is_timed:
            self._head_is_timed = True
            self._close_at(self.loop.time() + HEAD_TIMEOUT_S)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._parsed_bytes = 0
        self.scope["extensions"] = self._extensions

    def on_url(self, url: bytes) -> None:
        self._parsed_bytes += len(url)
        if self._parsed_bytes > MAX_HEAD_BYTES:
            raise HeadTooLarge
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Replace the parent's method: a call of it for each header would cost too much."""
        self._parsed_bytes += len(name) + len(value)
        if self._parsed_bytes > MAX_HEAD_BYTES:
            raise HeadTooLarge
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._deadline = _NEVER
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep a first chunk without a copy: the parent copies each chunk twice."""
        cycle: RequestResponseCycle = self.cycle
        if cycle.body or cycle.response_complete:
            super().on_body(body)
            return
        cycle.body = body  # type: ignore[assignment]
        if len(body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True
        self._head_bytes = 0
        self._head_is_timed = False

    def on_response_complete(self) -> None:
        """Replace the parent's method, to use the timer of this connection for the next request."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._deadline == _NEVER:  # no head has begun
            self._close_at(self.loop.time() + self.timeout_keep_alive)

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are no request, also a body whose framing breaks while it is read."""
        if self.transport.is_closing():
            return
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(broken_request(msg))
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Ignore the upgrade: the request continues as HTTP/1.1."""

    def is_gone(self) -> bool:
        return self.transport.is_closing()

    def is_body_here(self, scope: Scope) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.scope is scope and not cycle.more_body

    def write_response(self, scope: Scope, status: int, headers: RawHeaders, body: bytes) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.scope is not scope or self.flow.write_paused:
            return False  # an earlier request of a pipeline, or a peer that does not read
        if (
            cycle.response_started
            or cycle.disconnected
            or not cycle.keep_alive
            or scope["method"] == "HEAD"
        ):
            return False
        lines = [STATUS_LINE[status]]
        for name, value in (*cycle.default_headers, *headers):
            lines += (name, b": ", value, b"\r\n")
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        self.transport.write(b"".join((*lines, b"\r\n", body)))
        cycle.message_event.set()
        cycle.on_response()
        return True

    def _close_at(self, deadline: float) -> None:
        self._deadline = deadline
        if self._timer is not None and self._timer.when() > deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self.loop.call_at(deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        deadline, self._timer = self._deadline, None
        if self.loop.time() < deadline:
            if deadline != _NEVER:
                self._close_at(deadline)
        elif self._in_head and self._head_bytes:
            self.send_400_response(f"the request head was not received within {HEAD_TIMEOUT_S:g} s")
        else:
            self.transport.close()


def broken_request(message: str) -> bytes:
    """Return a whole response for bytes that are no request."""
    body = error_body(Code.BODY_READ_FAILED, message, 400)
    head = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "connection": "close",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "cache-control": "no-store, no-cache, must-revalidate",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"HTTP/1.1 400 Bad Request\r\n{lines}\r\n".encode() + body
