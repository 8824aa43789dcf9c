"""An ASGI extension: a whole answer in one call, for applications that prepare theirs.

A server that has it puts a `SendPrepared` at `scope["extensions"][EXTENSION]["send"]`, which an
application may call once instead of sending messages. `head` is the status line and the headers,
each with its CRLF: names in lower case, Content-Length among them, and checked by the application.
The server adds its own. False: nothing was sent, so send messages. `["is_body_here"]()` tells
whether the whole body of the request has arrived, so that nobody has to limit the wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

EXTENSION: Final = "partita.prepared_answer"
SendPrepared = Callable[[bytes, bytes], bool]


def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


STATUS_LINES: Final = {status: _status_line(status) for status in range(200, 600)}
