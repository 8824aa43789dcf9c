"""HTTP/2 on connections of `kernel.http_protocol` that ask for it: by ALPN or by their first bytes.

The library h2 keeps the protocol: frames, compression, states, windows. Here its streams become
requests of ASGI, early answers included (`kernel.prepared_answers`), and what one client can make
the server hold or do is bounded.

connection = Http2Connection(first)   # the HTTP/1.1 protocol, whose transport it takes
connection.data_received(b"PRI * HTTP/2.0…")
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, ClassVar, Final

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from uvicorn.protocols.http.flow_control import FlowControl, service_unavailable
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kernel.http2_streams import Stream
from kernel.prepared_answers import Prepared

# h2 itself bounds the headers of a request (64 KiB, 64 CONTINUATION frames) and open streams (100).
MAX_CALLS: Final = 200  # under way for one connection, those of streams that it reset among them
RECEIVE_WINDOW: Final = 2**20  # bytes of bodies that a connection sends ahead of who reads them
MAX_HELD: Final = 4 * 2**20  # bytes of all answers that wait, above which no other call begins
# How many frames that bring nothing a connection may send (resets, pings, settings, empty data).
# Answers and what is sent of them earn some more, as many as a client has reasons to send.
CREDIT: Final = 1_000
_MAX_CREDIT: Final = 10_000
_EARNED_BY_ANSWER: Final = 10
_TARGET: Final = re.compile(rb"\*|/[!\x22$-~]*")  # no fragment
_METHOD: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")


class Http2Connection(asyncio.Protocol):
    """Takes over the transport of a connection that began as HTTP/1.1, and its server's state."""

    def __init__(
        self, first: HttpToolsProtocol, answer_early: Callable[..., Prepared | None] | None
    ) -> None:
        self.server = first
        self.transport = first.transport
        self.flow = FlowControl(self.transport)
        self.h2 = H2Connection(
            H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_outbound_headers=False,  # `Stream` does both
                normalize_outbound_headers=False,
            )
        )
        self.answer_early = answer_early
        self._streams: dict[int, Stream] = {}
        self.held = 0
        self._running = 0
        self._credit = CREDIT
        self._is_ending = False
        self._is_flush_due = False
        self._timer: asyncio.TimerHandle | None = None
        first._unset_keepalive_if_required()  # noqa: SLF001 - it is HTTP/1.1's no more
        first.connections.discard(first)
        first.connections.add(self)  # type: ignore[arg-type]  # as far as a server asks, it is one
        self.transport.set_protocol(self)
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(RECEIVE_WINDOW)
        self.flush()
        self._await_streams()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self.h2.receive_data(data):
                self._takers.get(type(event), Http2Connection._spend)(self, event)
                if self.transport.is_closing():
                    return
        except ProtocolError:
            self._end(None)
            return
        self._begin_waiting()
        self.flush()

    def _take_data(self, event: events.DataReceived) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None or stream.is_complete:
            self.acknowledge(event.stream_id, event.flow_controlled_length)
        else:
            stream.feed(event.data, event.flow_controlled_length)
        if not event.data:
            self._spend(event)

    def _take_reset(self, event: events.StreamReset) -> None:
        if event.stream_id in self._streams:
            self._streams[event.stream_id].disconnect()
            self.forget(event.stream_id)
        self._spend(event)

    def _take_window(self, event: events.Event) -> None:
        self._write_waiting()
        self._spend(event)

    def _take_goaway(self, _event: events.ConnectionTerminated) -> None:
        self._end(None)

    def _spend(self, _event: events.Event) -> None:
        self._credit -= 1
        if self._credit < 0:
            self._end(ErrorCodes.ENHANCE_YOUR_CALM)

    def earn(self, frames: int) -> None:
        self._credit = min(self._credit + frames, _MAX_CREDIT)

    def _take_request(self, event: events.RequestReceived) -> None:
        number = event.stream_id
        if self._is_ending:
            self._refuse(event, ErrorCodes.REFUSED_STREAM)
            return
        if self._running >= MAX_CALLS:
            self._end(ErrorCodes.ENHANCE_YOUR_CALM)
            return
        pseudo = {name: value for name, value in event.headers if name.startswith(b":")}
        method, target = pseudo[b":method"], pseudo.get(b":path", b"")
        if not _TARGET.fullmatch(target) or not _METHOD.fullmatch(method):  # CONNECT has none
            self._refuse(event, ErrorCodes.PROTOCOL_ERROR)
            return
        headers = [pair for pair in event.headers if not pair[0].startswith(b":")]
        if b":authority" in pseudo:
            headers = [pair for pair in headers if pair[0] != b"host"]
            headers.insert(0, (b"host", pseudo[b":authority"]))
        self._stop_timer()
        self._streams[number] = Stream(self, number, bytes(method), bytes(target), headers)

    def _refuse(self, event: events.RequestReceived, code: ErrorCodes) -> None:
        self.h2.reset_stream(event.stream_id, code)
        self._spend(event)

    def _take_end(self, event: events.StreamEnded) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None:
            return
        stream.end_body()
        if stream.is_begun:
            return
        stream.know_length()
        if self.is_full or self.answer_early is None or stream.is_expecting:
            return
        body = bytes(stream.body)
        answer = self.answer_early(stream.method, stream.target, stream.headers, body)
        if answer is not None:
            stream.is_begun = True
            stream.send_whole(*answer)

    @property
    def is_full(self) -> bool:
        """Return whether the client takes too little of what it gets for another answer."""
        return self.held > MAX_HELD or self.flow.write_paused

    def _begin_waiting(self) -> None:
        """Begin the calls whose body is still to come, or that are not answered early."""
        for stream in list(self._streams.values()):
            if self.is_full:
                return
            if not stream.is_begun:
                self._begin(stream)

    def _begin(self, stream: Stream) -> None:
        """Bring a request to the application by ASGI, with what has come of its body."""
        stream.is_begun = True
        stream.know_length()
        server = self.server
        limit = server.limit_concurrency
        is_busy = limit is not None and max(len(server.connections), len(server.tasks)) >= limit
        app = service_unavailable if is_busy else server.app
        self._running += 1
        task = server.loop.create_task(stream.run(app))
        task.add_done_callback(self._end_call)
        server.tasks.add(task)

    def _end_call(self, task: asyncio.Task[None]) -> None:
        self._running -= 1
        self.server.tasks.discard(task)

    def forget(self, number: int, *, is_answered: bool = False) -> None:
        """Drop a stream that ended."""
        self._streams.pop(number, None)
        if is_answered:
            self.server.server_state.total_requests += 1
            self.earn(_EARNED_BY_ANSWER)
        if self._streams:
            return
        if self._is_ending:
            self._end()
        else:
            self._await_streams()

    def acknowledge(self, number: int, size: int) -> None:
        """Let the client send as many more bytes of bodies."""
        if size and not self.transport.is_closing():
            self.h2.acknowledge_received_data(size, number)
            self.flush_soon()

    def flush(self) -> None:
        self._is_flush_due = False
        data = self.h2.data_to_send()
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def flush_soon(self) -> None:
        """Write when whoever runs now is done: head and body go out together."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self.server.loop.call_soon(self.flush)

    def _write_waiting(self) -> None:
        if self.held:
            for stream in list(self._streams.values()):
                stream.write()
        self._begin_waiting()

    def _await_streams(self) -> None:
        self._stop_timer()
        wait = self.server.timeout_keep_alive
        self._timer = self.server.loop.call_later(wait, self._end)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, code: ErrorCodes | None = ErrorCodes.NO_ERROR) -> None:
        """Say GOAWAY, but for None, when h2 or the client has done so; and close."""
        if self.transport.is_closing():
            return
        if code is not None:
            self.h2.close_connection(code)
        self.flush()
        for stream in self._streams.values():
            stream.disconnect()
        self._streams.clear()
        self.transport.abort() if self.flow.write_paused else self.transport.close()

    def shutdown(self) -> None:
        """Finish the calls under way and refuse other ones; called by uvicorn's server.

        GOAWAY comes after them: clients by h2 (httpx) read nothing that follows it.
        """
        self._is_ending = True
        if not self._streams:
            self._end()

    def pause_writing(self) -> None:
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        self.flow.resume_writing()
        self._write_waiting()
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.connections.discard(self)
        self._stop_timer()
        self.flow.resume_writing()
        for stream in self._streams.values():
            stream.disconnect()
        self._streams.clear()

    _takers: ClassVar[dict[type[events.Event], Callable[[Http2Connection, Any], None]]] = {
        events.RequestReceived: _take_request,
        events.DataReceived: _take_data,
        events.StreamEnded: _take_end,
        events.StreamReset: _take_reset,
        events.WindowUpdated: _take_window,
        events.RemoteSettingsChanged: _take_window,
        events.ConnectionTerminated: _take_goaway,
    }
