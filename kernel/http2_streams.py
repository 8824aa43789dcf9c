"""A request of HTTP/2 and its answer, as ASGI has them."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from h2.errors import ErrorCodes
from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE
from uvicorn.protocols.utils import get_client_addr, get_path_with_query_string

from kernel.prepared_answers import EXTENSION

if TYPE_CHECKING:
    from kernel.http2 import Http2Connection

HIGH_WATER: Final = 64 * 2**10  # bytes of an answer that wait for the client to take them
_EARNED_BY_FRAME: Final = 3  # window updates of the client, and then some
_HOP_BY_HOP: Final = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
)
_NO_BODY: Final = (204, 304)
Headers = list[tuple[bytes, bytes]]
Message = MutableMapping[str, Any]


class Stream:
    """One request and its answer."""

    def __init__(
        self, connection: Http2Connection, number: int, method: bytes, target: bytes,
        headers: Headers,
    ) -> None:  # fmt: skip
        self._connection = connection
        self._number = number
        self.method, self.target, self.headers = method, target, headers
        self.is_expecting = (b"expect", b"100-continue") in headers
        self.is_begun = False  # its call
        self.is_complete = False  # its answer, as far as the application goes
        self.body = bytearray()
        self._has_more = True
        self._unread = 0  # bytes of the window
        self._is_disconnected = False
        self._is_started = False
        self._ends_early = False
        self._waiting: list[memoryview] = []  # of the answer, for the client's window
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()

    def feed(self, data: bytes, size: int) -> None:
        self.body += data
        self._unread += size
        self._changed.set()

    def end_body(self) -> None:
        self._has_more = False
        self._changed.set()

    def know_length(self) -> None:
        """Say how long a body is as HTTP/1.1 would: with its length, or in chunks."""
        if any(name == b"content-length" for name, _ in self.headers):
            return
        if self._has_more:
            self.headers.append((b"transfer-encoding", b"chunked"))
        elif self.body:
            self.headers.append((b"content-length", b"%d" % len(self.body)))

    def disconnect(self) -> None:
        self._is_disconnected = True
        self._connection.held -= sum(map(len, self._waiting))
        self._waiting.clear()
        self._changed.set()
        self._has_room.set()

    async def run(self, app: Any) -> None:
        logger = self._connection.server.logger
        try:
            await app(self._scope(), self._receive, self._send)
        except BaseException:
            logger.exception("Exception in ASGI application")
        else:
            if self.is_complete or self._is_disconnected:
                return
            logger.error("ASGI callable returned without completing response.")
        if self.is_complete or self._is_disconnected:
            return
        if self._is_started:
            self._reset(ErrorCodes.INTERNAL_ERROR)
        else:
            kind = (b"content-type", b"text/plain; charset=utf-8")
            self._start(500, [kind])
            self._write_body(b"Internal Server Error", ends=True)

    def _scope(self) -> Message:
        server = self._connection.server
        raw_path, _, query = self.target.partition(b"?")
        path = unquote(raw_path.decode("ascii"))
        return {
            "type": "http",
            "asgi": {"version": server.asgi_version, "spec_version": "2.3"},
            "http_version": "2",
            "server": server.server,
            "client": server.client,
            "scheme": server.scheme,
            "method": self.method.decode("latin-1"),
            "root_path": server.root_path,
            "path": server.root_path + path,
            "raw_path": server.root_path.encode("ascii") + raw_path,
            "query_string": query,
            "headers": self.headers,
            "state": server.app_state.copy(),
            "extensions": {
                EXTENSION: {
                    "send": self._send_prepared,
                    "is_body_here": self._is_body_here,
                    "take_connection": self._take_connection,
                }
            },
        }

    async def _receive(self) -> Message:
        if not self._is_disconnected and not self.is_complete:
            if self.is_expecting and not self.body and not self._is_started:
                self._connection.h2.send_headers(self._number, [(b":status", b"100")])
                self._connection.flush_soon()
            self.is_expecting = False
            await self._changed.wait()
            self._changed.clear()
        if self._is_disconnected or self.is_complete:
            return {"type": "http.disconnect"}
        body = bytes(self.body)
        self.body.clear()
        self._acknowledge()
        return {"type": "http.request", "body": body, "more_body": self._has_more}

    async def _send(self, message: Any) -> None:
        if self._is_disconnected:
            return
        kind = message["type"]
        if kind == "http.response.start" and not self._is_started:
            headers = [*message.get("headers", [])]
            if any(HEADER_RE.search(name) or HEADER_VALUE_RE.search(of) for name, of in headers):
                raise RuntimeError("Invalid HTTP header.")
            self._start(message["status"], headers)
        elif kind == "http.response.body" and self._is_started and not self.is_complete:
            self._write_body(message.get("body", b""), ends=not message.get("more_body"))
            while self._is_held() and not self._is_disconnected:
                self._has_room.clear()
                await self._has_room.wait()
        else:
            raise RuntimeError(f"Unexpected ASGI message '{kind}'")

    def _is_body_here(self) -> bool:
        return not self._has_more

    def _is_held(self) -> bool:
        return sum(map(len, self._waiting)) > HIGH_WATER

    def _send_prepared(self, head: bytes, body: bytes) -> bool:
        if self._is_started or self._connection.is_full:
            return False
        self.send_whole(head, body)
        return True

    def send_whole(self, head: bytes, body: bytes) -> None:
        """Send an answer that was prepared for HTTP/1.1."""
        if self._is_disconnected:
            return
        lines = head.split(b"\r\n")
        pairs = (line.partition(b":") for line in lines[1:] if line)
        self._start(int(lines[0][9:12]), [(name, value) for name, _, value in pairs])
        self._write_body(body, ends=True)

    def _start(self, status: int, headers: Headers) -> None:
        self._is_started = True
        server = self._connection.server
        self._ends_early = (b"connection", b"close") in headers
        shown = [
            (lower, value.strip())
            for name, value in (*headers, *server.server_state.default_headers)
            if (lower := name.lower()) not in _HOP_BY_HOP
        ]
        self._has_body = self.method != b"HEAD" and status not in _NO_BODY
        if server.access_log:
            scope: Any = self._scope()
            path = get_path_with_query_string(scope)
            asked = (get_client_addr(scope), scope["method"], path, "2", status)
            server.access_logger.info('%s - "%s %s HTTP/%s" %d', *asked)
        pairs = [(b":status", b"%d" % status), *shown]
        self._connection.h2.send_headers(self._number, pairs, end_stream=not self._has_body)
        self._connection.flush_soon()

    def _write_body(self, data: bytes, *, ends: bool) -> None:
        if data and self._has_body:
            self._waiting.append(memoryview(data))
            self._connection.held += len(data)
        if ends:
            self.is_complete = True
            self._changed.set()
            self.body.clear()
            self._acknowledge()
        self.write()

    def write(self) -> None:
        """Send what the windows of client and socket let through, and the end after it."""
        connection, number = self._connection, self._number
        while self._waiting and not connection.flow.write_paused:
            room = connection.h2.local_flow_control_window(number)
            if room <= 0:
                break
            data = self._waiting[0]
            piece = data[: min(room, connection.h2.max_outbound_frame_size)]
            is_last = self.is_complete and len(self._waiting) == 1 and len(piece) == len(data)
            connection.h2.send_data(number, bytes(piece), end_stream=is_last)
            connection.held -= len(piece)
            connection.earn(_EARNED_BY_FRAME)
            if len(piece) < len(data):
                self._waiting[0] = data[len(piece) :]
                connection.flush()  # the transport says when it has enough
                continue
            self._waiting.pop(0)
            if is_last:
                self._end()
                return
        connection.flush_soon()
        if not self._is_held():
            self._has_room.set()
        if self.is_complete and not self._waiting:
            if self._has_body:
                connection.h2.end_stream(number)
            self._end()

    def _end(self) -> None:
        if self._has_more and self._ends_early:
            self._connection.h2.reset_stream(self._number, ErrorCodes.NO_ERROR)
        self._connection.flush_soon()
        self._has_room.set()
        self._connection.forget(self._number, is_answered=True)

    def _acknowledge(self) -> None:
        size, self._unread = self._unread, 0
        self._connection.acknowledge(self._number, size)

    def _reset(self, code: ErrorCodes) -> None:
        self.disconnect()
        self._connection.h2.reset_stream(self._number, code)
        self._connection.flush_soon()
        self._connection.forget(self._number)

    def _take_connection(self) -> asyncio.Transport:
        """Return the transport, with which all streams of the connection end."""
        self.is_complete = self._is_started = True
        self._connection.flush()
        self.disconnect()
        return self._connection.transport
