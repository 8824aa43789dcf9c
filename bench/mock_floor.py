"""The floor of the mock benchmark: the least that a server in Python can do for the same answers.

A raw ASGI application that finds method and first segment in a dictionary and sends bytes made
beforehand: no state, no journal, no metrics, no request id.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

from bench.mock_api import compact, document, resources


def _answers() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    found = {}
    for noun in resources(int(os.environ.get("OPERATIONS", "20"))):
        body = compact(document(noun)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        start = {"type": "http.response.start", "status": 200, "headers": headers}
        answer = start, {"type": "http.response.body", "body": body}
        found[f"GET {noun}"] = found[f"POST {noun}"] = answer
    return found


_ANSWERS = _answers()


async def application(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Answer below the same prefix as Partita's mocks."""
    noun = scope["path"].split("/")[5]
    body = b""
    if scope["method"] == "POST":
        message = await receive()
        body = message["body"]
        while message.get("more_body"):
            message = await receive()
            body += message["body"]
        json.loads(body)
    start, end = _ANSWERS[f"{scope['method']} {noun}"]
    await send(start)
    await send(end)
