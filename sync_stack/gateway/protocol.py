"""uvicorn's HTTP/1.1 protocol with limits on heads and with JSON for what it cannot parse."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from sync_stack.gateway.answers import Code, error_body
from sync_stack.gateway.requests import SENDER

HEAD_TIMEOUT_S: Final = 10.0
MAX_HEAD_BYTES: Final = 64 * 2**10
MAX_CONNECTIONS: Final = 10_000
_SLACK: Final = 2**12  # of line ends and spaces between headers


class HeadTooLarge(Exception):
    """Ends the parsing of a request."""


class GatewayProtocol(HttpToolsProtocol):
    """A head must be complete in 10 s and 64 KiB."""

    _in_head = True
    _head_bytes = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
            self._await_head()
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES + _SLACK:
            self.send_400_response("the head of the request is too large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._parsed_bytes = 0
        sender = {
            "is_gone": self.transport.is_closing,
            "is_here": self._is_body_here,
            "answer": partial(self._answer, self.scope),
        }
        self.scope["extensions"] = {SENDER: sender}  # type: ignore[dict-item]

    def on_url(self, url: bytes) -> None:
        self._parsed_bytes += len(url)
        if self._parsed_bytes > MAX_HEAD_BYTES:
            raise HeadTooLarge
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parent's work too: this is called for each header of each request."""
        self._parsed_bytes += len(name) + len(value)
        if self._parsed_bytes > MAX_HEAD_BYTES:
            raise HeadTooLarge
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True
        self._head_bytes = 0

    def send_400_response(self, msg: str) -> None:
        """Also for a body whose framing breaks while it is read; the application hears of it."""
        if self.transport.is_closing():
            return
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(broken_request(msg))
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Upgrades are not offered: the request goes on as HTTP/1.1."""

    def _is_body_here(self) -> bool:
        """Of the request that is being answered; `receive` then gives it without waiting."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.more_body

    def _answer(
        self, scope: Any, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes
    ) -> bool:
        """Write a whole answer with Content-Length at once; False: it must go the usual way."""
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

    def _await_head(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_TIMEOUT_S, self._head_is_late)

    def _head_is_late(self) -> None:
        self._timer = None
        if self._head_bytes:
            message = f"the head did not arrive within {HEAD_TIMEOUT_S:g} s"
            self.send_400_response(message)
        else:
            self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def broken_request(message: str) -> bytes:
    """A whole answer for bytes that are no request."""
    body = error_body(Code.BODY_READ_FAILED, message, 400)
    head: dict[str, Any] = {
        "content-type": "application/json",
        "content-length": len(body),
        "connection": "close",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "cache-control": "no-store, no-cache, must-revalidate",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"HTTP/1.1 400 Bad Request\r\n{lines}\r\n".encode() + body
