"""uvicorn's HTTP/1.1 protocol, whose refusals of what it cannot parse are problem documents.

`uvicorn --http kernel.http_protocol:ProblemProtocol …`; no request reaches the application then.
It also takes answers that an application has prepared as a whole, or gives before there is a
request of ASGI (`kernel.prepared_answers`): that costs a third of one that ASGI brings.
"""

from __future__ import annotations

import json
import re
import sys
from asyncio import Transport
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final

from httptools import HttpParserInvalidMethodError, HttpParserUpgrade, HttpRequestParser
from uvicorn.importer import import_from_string
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from kernel import ids
from kernel.errors import PlatformError
from kernel.prepared_answers import EXTENSION, AnswerEarly, Prepared, early_answers_of
from kernel.problems import problem_document

if TYPE_CHECKING:
    from kernel.http2 import Http2Connection

HEAD_S: Final = 30.0
MAX_HEAD_BYTES: Final = 64 * 2**10
KEEP_ALIVE_S: Final = 75  # clients and proxies close idle connections first, at 60 s or less
METHODS: Final = "GET, HEAD, POST, PUT, DELETE, OPTIONS"
_REQUEST_LINE: Final = re.compile(
    rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64} (\S{1,8192}) HTTP/1\.[01]\r?\n"
)
_OFFER: Final = (b"upgrade", b"http2-settings")
_PREFACE: Final = b"PRI * HTTP/2.0\r\n"


class MethodUnknown(PlatformError):
    code = "method_not_allowed"


class NotUnderstood(PlatformError):
    code = "invalid_parameter"


class RequestHeadTooLarge(PlatformError):
    code = "payload_too_large"


class RequestHeadTooSlow(PlatformError):
    code = "request_timeout"


class ProblemProtocol(HttpToolsProtocol):
    """Answers an unknown method with 405, and anything else that it cannot parse with 400.

    It keeps an idle connection for 75 s: at the 5 s of uvicorn, which HTTP clients wait too, a
    request meets the end of its connection now and then, and a proxy answers 502. The head of a
    request may take 30 s, and has 64 KiB beyond what came at once.
    """

    alpn_protocols: ClassVar = ["h2", "http/1.1"]  # of uvicorn's own TLS
    _latest = b""
    _is_kept = False  # a request, until its body is here or all that came is parsed
    _idle_since: float | None = None  # on the loop's clock
    _head_since: float | None = None  # likewise, of a head that came in part
    _is_in_head = False
    _head_bytes = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.timeout_keep_alive = max(self.timeout_keep_alive, KEEP_ALIVE_S)
        is_logged = self.config.access_log and self.access_log
        is_usual = is_logged or self.limit_concurrency is not None  # uvicorn does both by ASGI
        self._answer_early = None if is_usual else early_answers_of(self.app)

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.scheme == "https":
            secured = transport.get_extra_info("ssl_object")
            if secured is not None and secured.selected_alpn_protocol() == "h2":
                _take_over(self, self._answer_early)
                return
        self._idle_since = self.loop.time()
        self._look_later(self.timeout_keep_alive)

    def data_received(self, data: bytes) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        if data.startswith(_PREFACE) and cycle is None:
            self._cancel_look()
            _take_over(self, self._answer_early).data_received(data)
            return
        self._latest = data
        super().data_received(data)
        if self._is_in_head:
            self._limit_head(len(data))
        if self._is_kept and not self.transport.is_closing():
            self._begin_cycle()

    def on_message_begin(self) -> None:
        """Keep what the parent makes for ASGI for later: most of it may not be needed."""
        self._is_in_head = True
        self.url = b""
        self.headers = []
        self.expect_100_continue = False

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        if self._head_since is not None:
            self._head_bytes, self._head_since = 0, None
        if self._has_offer():
            return
        cycle: RequestResponseCycle | None = self.cycle
        self._is_kept = (
            self._answer_early is not None
            and (cycle is None or cycle.response_complete)
            and not self.flow.write_paused
            and not self.expect_100_continue
            and not self.parser.should_upgrade()
        )
        self._body = b""
        if not self._is_kept:
            self._begin_cycle()

    def on_body(self, body: bytes) -> None:
        if self._is_kept:
            self._body += body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._has_offer():
            return
        if not self._is_kept:
            super().on_message_complete()
        elif not self._send_early():
            self._begin_cycle()
            super().on_message_complete()

    def _send_early(self) -> bool:
        """Answer the request that is kept, if the application does so early."""
        assert self._answer_early is not None
        method = self.parser.get_method()
        answer = self._answer_early(method, self.url, self.headers, self._body)
        if answer is None:
            return False
        self._is_kept = False
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        own = self.server_state.default_headers
        _write_whole(self.transport, answer, own, keep_alive=keep_alive)
        self.on_response_complete()
        return True

    def _begin_cycle(self) -> None:
        """Bring a request to the application by ASGI, with what has come of its body."""
        self._is_kept = False
        url, headers, is_expected = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.headers, self.expect_100_continue = url, headers, is_expected
        self.scope["headers"] = headers
        super().on_headers_complete()
        if self._body:
            super().on_body(self._body)

    def on_response_complete(self) -> None:
        """Do as the parent, with one timer for as long as a connection is used.

        To make and to cancel one for each request takes a tenth of the CPU of a quick answer.
        """
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
            return
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._look_later(self.timeout_keep_alive)

    def _limit_head(self, size: int) -> None:
        """Note that a head came in part; refuse one that is too large.

        What came with its beginning does not count: a body may have ended in it.
        """
        if self._head_since is None:
            self._head_since = self.loop.time()
            self._cancel_look()
            self._look_later(HEAD_S)
            return
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(
                RequestHeadTooLarge(f"the head of a request has {MAX_HEAD_BYTES} bytes at most")
            )

    def _refuse(self, error: PlatformError) -> None:
        if not self.transport.is_closing():
            self.transport.write(_answer(error, ""))
            self.transport.close()

    def _look_later(self, seconds: float) -> None:
        handler = self.timeout_keep_alive_handler
        self.timeout_keep_alive_task = self.loop.call_later(seconds, handler)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if it has been idle, or in a head, for as long as it may."""
        self.timeout_keep_alive_task = None
        since, seconds = self._idle_since, float(self.timeout_keep_alive)
        if self._head_since is not None:
            since, seconds = self._head_since, HEAD_S
        if since is None or self.transport.is_closing():
            return
        left = since + seconds - self.loop.time()
        if left > 0:
            self._look_later(left)
        elif self._head_since is not None:
            self._refuse(RequestHeadTooSlow(f"the head of a request has {HEAD_S:g} s to arrive"))
        else:
            self.transport.close()

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel_look()

    def _cancel_look(self) -> None:
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None

    def _has_offer(self) -> bool:
        """Return whether a request offers a protocol that nobody takes: h2c, by JDK's HttpClient.

        The parser takes it for accepted, and ends the request before its body.
        """
        return (
            self.parser.should_upgrade()
            and self._get_upgrade() not in (None, b"websocket")
            and self.parser.get_method() != b"CONNECT"
        )

    def _unsupported_upgrade_warning(self) -> None:
        """Read a request again without what it offers, and go on behind its head.

        Called while the parser's exception is handled, which says where that ends.
        """
        error = sys.exc_info()[1]
        if not isinstance(error, HttpParserUpgrade) or not self._has_offer():
            super()._unsupported_upgrade_warning()
            return
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        for name, value in self.headers:
            kept = [value]
            if name == b"connection":
                kept = [each for each in value.split(b",") if each.strip().lower() not in _OFFER]
            if name not in _OFFER:
                lines.append(b"%b: %b" % (name, b",".join(kept)))
        rest = self._latest[error.args[0] :]
        self.parser = HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as the parent does
        self._latest = b"\r\n".join([*lines, b"", b""]) + rest
        super().data_received(self._latest)

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be parsed; called while the parser's error is handled."""
        line = _REQUEST_LINE.match(self._latest)
        if line and isinstance(sys.exc_info()[1], HttpParserInvalidMethodError):
            path = line[1].partition(b"?")[0].decode(errors="replace")
            self.transport.write(_answer(MethodUnknown("no route has this method"), path))
            self.transport.close()
        else:
            self._refuse(NotUnderstood("the request cannot be understood"))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        cycle.scope["extensions"] = {
            EXTENSION: {
                "send": partial(_send_prepared, cycle),
                "is_body_here": partial(_is_body_here, cycle),
                "take_connection": partial(_take_connection, cycle),
            }
        }
        super()._start_asgi_task(cycle, app)


def _take_over(first: ProblemProtocol, answer_early: AnswerEarly | None) -> Http2Connection:
    """Go on in HTTP/2, which is imported with the first connection that speaks it."""
    made: type[Http2Connection] = import_from_string("kernel.http2:Http2Connection")
    return made(first, answer_early)


def _is_body_here(cycle: RequestResponseCycle) -> bool:
    return not cycle.more_body


def _take_connection(cycle: RequestResponseCycle) -> Any:
    """Return the transport, which no further answer of this connection uses."""
    cycle.response_started = cycle.response_complete = True
    cycle.keep_alive = False
    cycle.message_event.set()
    return cycle.transport


def _send_prepared(cycle: RequestResponseCycle, head: bytes, body: bytes) -> bool:
    """Send a whole answer at once, as `cycle.send` does in two messages and with checks."""
    if cycle.flow.write_paused or cycle.response_started:
        return False
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.message_event.set()
    if cycle.disconnected:
        return True
    own = cycle.default_headers
    _write_whole(cycle.transport, (head, body), own, keep_alive=cycle.keep_alive)
    cycle.on_response()
    return True


def _write_whole(
    transport: Transport, answer: Prepared, own: list[tuple[bytes, bytes]], *, keep_alive: bool
) -> None:
    """Write an answer with the server's own headers, and end the connection if it does not stay."""
    end = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
    transport.write(b"".join([answer[0], _encode_headers(own), end, answer[1]]))
    if not keep_alive:
        transport.close()


_encoded_headers: tuple[list[tuple[bytes, bytes]], bytes] = ([], b"")


def _encode_headers(headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return the server's own headers, Date among them: uvicorn makes a new list each second."""
    global _encoded_headers  # noqa: PLW0603 - a cache of one
    known, encoded = _encoded_headers
    if known is not headers:
        encoded = b"".join([b"%b: %b\r\n" % pair for pair in headers])
        _encoded_headers = headers, encoded
    return encoded


def _answer(error: PlatformError, path: str) -> bytes:
    """A whole answer, after which the connection ends: the parser is of no use any more."""
    request_id = str(ids.new_uuid())
    document = problem_document(error, instance=path, request_id=request_id)
    body = json.dumps(document, separators=(",", ":")).encode()
    status = HTTPStatus(document["status"])
    lines = [
        f"HTTP/1.1 {status} {status.phrase}",
        "Content-Type: application/problem+json",
        f"Content-Length: {len(body)}",
        f"X-Request-Id: {request_id}",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        lines.append(f"Allow: {METHODS}")
    return "\r\n".join([*lines, "", ""]).encode() + body
