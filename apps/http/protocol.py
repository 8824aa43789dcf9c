"""uvicorn's HTTP/1.1 protocol, whose refusals of what it cannot parse are problem documents.

`uvicorn --http apps.http.protocol:ProblemProtocol …`; no request reaches the application then.
It also takes answers that an application has prepared as a whole (`kernel.prepared_answers`).
"""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from httptools import HttpParserInvalidMethodError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from kernel import ids
from kernel.errors import PlatformError
from kernel.prepared_answers import EXTENSION
from kernel.problems import problem_document

KEEP_ALIVE_S: Final = 75  # clients and proxies close idle connections first, at 60 s or less
METHODS: Final = "GET, HEAD, POST, PUT, DELETE, OPTIONS"
_REQUEST_LINE: Final = re.compile(
    rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64} (\S{1,8192}) HTTP/1\.[01]\r?\n"
)


class MethodUnknown(PlatformError):
    code = "method_not_allowed"


class NotUnderstood(PlatformError):
    code = "invalid_parameter"


class ProblemProtocol(HttpToolsProtocol):
    """Answers an unknown method with 405, and anything else that it cannot parse with 400.

    It keeps an idle connection for 75 s: at the 5 s of uvicorn, which HTTP clients wait too, a
    request meets the end of its connection now and then, and a proxy answers 502.
    """

    _latest = b""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.timeout_keep_alive = max(self.timeout_keep_alive, KEEP_ALIVE_S)

    def data_received(self, data: bytes) -> None:
        self._latest = data
        super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be parsed; called while the parser's error is handled."""
        line = _REQUEST_LINE.match(self._latest)
        if line and isinstance(sys.exc_info()[1], HttpParserInvalidMethodError):
            path = line[1].partition(b"?")[0].decode(errors="replace")
            self.transport.write(_answer(MethodUnknown("no route has this method"), path))
        else:
            self.transport.write(_answer(NotUnderstood("the request cannot be understood"), ""))
        self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        cycle.scope["extensions"] = {
            EXTENSION: {
                "send": partial(_send_prepared, cycle),
                "is_body_here": partial(_is_body_here, cycle),
            }
        }
        super()._start_asgi_task(cycle, app)


def _is_body_here(cycle: RequestResponseCycle) -> bool:
    return not cycle.more_body


def _send_prepared(cycle: RequestResponseCycle, head: bytes, body: bytes) -> bool:
    """Send a whole answer at once, as `cycle.send` does in two messages and with checks."""
    if cycle.flow.write_paused or cycle.response_started:
        return False
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.message_event.set()
    if cycle.disconnected:
        return True
    end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
    cycle.transport.write(b"".join([head, _encode_headers(cycle.default_headers), end, body]))
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


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
