"""uvicorn's HTTP/1.1 protocol, whose refusals of what it cannot parse are problem documents.

`uvicorn --http apps.http.protocol:ProblemProtocol …`; no request reaches the application then.
"""

from __future__ import annotations

import json
import re
import sys
from http import HTTPStatus
from typing import Final

from httptools import HttpParserInvalidMethodError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kernel import ids
from kernel.errors import PlatformError
from kernel.problems import problem_document

METHODS: Final = "GET, HEAD, POST, PUT, DELETE, OPTIONS"
_REQUEST_LINE: Final = re.compile(
    rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64} (\S{1,8192}) HTTP/1\.[01]\r?\n"
)


class MethodUnknown(PlatformError):
    code = "method_not_allowed"


class NotUnderstood(PlatformError):
    code = "invalid_parameter"


class ProblemProtocol(HttpToolsProtocol):
    """Answers an unknown method with 405, and anything else that it cannot parse with 400."""

    _latest = b""

    def data_received(self, data: bytes) -> None:
        self._latest = data
        super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Called while the parser's error is handled."""
        line = _REQUEST_LINE.match(self._latest)
        if line and isinstance(sys.exc_info()[1], HttpParserInvalidMethodError):
            path = line[1].partition(b"?")[0].decode(errors="replace")
            self.transport.write(_answer(MethodUnknown("no route has this method"), path))
        else:
            self.transport.write(_answer(NotUnderstood("the request cannot be understood"), ""))
        self.transport.close()


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
