"""A plane that is asked early, as its server asks it, and by ASGI where it does not answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mocks.plane.asgi import MockPlane
from mocks.plane.http_requests import Receive, Scope, Send, has_body


class EarlyFirst:
    """The application of a server that asks early; `answered` counts what was answered so."""

    def __init__(self, plane: MockPlane) -> None:
        self.plane = plane
        self.answered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        waiting: list[Mapping[str, Any]] = []
        if has_body(dict(scope["headers"])):
            waiting.append(await receive())
            while waiting[-1].get("more_body"):
                waiting.append(await receive())
        body = b"".join(each.get("body", b"") for each in waiting)
        query = scope.get("query_string", b"")
        target = scope["raw_path"].partition(b"?")[0] + (b"?" + query if query else b"")
        method = scope["method"].encode()
        answer = self.plane.answer_early(method, target, scope["headers"], body)
        if answer is not None:
            self.answered += 1
            await _send_prepared(send, *answer)
            return

        async def receive_again() -> Any:
            return waiting.pop(0) if waiting else await receive()

        await self.plane(scope, receive_again, send)


async def _send_prepared(send: Send, head: bytes, body: bytes) -> None:
    first, *lines = head.split(b"\r\n")[:-1]
    headers = [tuple(line.split(b": ", 1)) for line in lines]
    status = int(first.split(b" ")[1])
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
