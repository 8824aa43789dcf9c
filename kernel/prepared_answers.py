"""Answers that need less than ASGI's messages, for applications that prepare theirs.

An ASGI extension sends a whole answer in one call.
A server that has it puts a `SendPrepared` at `scope["extensions"][EXTENSION]["send"]`, which an
application may call once instead of sending messages. `head` is the status line and the headers,
each with its CRLF: names in lower case, Content-Length among them, and checked by the application.
The server adds its own. False: nothing was sent, so send messages. `["is_body_here"]()` tells
whether the whole body of the request has arrived, so that nobody has to limit the wait for it.
`["take_connection"]()` gives the transport to the application, once and before any answer: what
goes out then, and how the connection ends, is its own affair.

An application with an attribute `answer_early` (an `AnswerEarly`) is asked by the server before
it makes a request of ASGI, its task and its events: method, target, headers with names in lower
case, body. It returns head and body as above, or None if the request is to come as usual. It never
waits, and never raises.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

EXTENSION: Final = "partita.prepared_answer"
SendPrepared = Callable[[bytes, bytes], bool]
Prepared = tuple[bytes, bytes]  # head, body
AnswerEarly = Callable[[bytes, bytes, list[tuple[bytes, bytes]], bytes], Prepared | None]


def early_answers_of(application: object) -> AnswerEarly | None:
    """Return what answers early, also of an application within the wrappers of its server."""
    while application is not None:
        found: AnswerEarly | None = getattr(application, "answer_early", None)
        if found is not None:
            return found
        application = getattr(application, "app", None)
    return None


def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


STATUS_LINES: Final = {status: _status_line(status) for status in range(200, 600)}
