"""A call that is answered before ASGI has a request, because it waits for nothing.

Its coroutine is the one of every call, so that secret, limits, draining, journal and metrics hold
as well; it runs to its end at once.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from kernel.prepared_answers import EXTENSION, Prepared
from mocks.plane.http_requests import Receive, Scope, Send
from mocks.plane.http_responses import Headers


class EarlyCall:
    """A request with what ASGI would bring, whose answer stays here instead of being sent."""

    __slots__ = ("_answer", "_body", "arguments")

    def __init__(
        self, method: str, path: bytes, query: bytes, headers: Headers, body: bytes
    ) -> None:
        self._body = body
        self._answer: Prepared | None = None
        scope: Scope = {
            "method": method,
            "raw_path": path,
            "query_string": query,
            "headers": headers,
            "extensions": {EXTENSION: {"send": self._keep, "is_body_here": _yes}},
        }
        self.arguments: tuple[Scope, Receive, Send] = (scope, self._receive, _send)

    def run(self, answering: Coroutine[Any, Any, None]) -> Prepared | None:
        """Run a coroutine that answers this call; raise RuntimeError if it waits."""
        try:
            answering.send(None)
        except StopIteration:
            return self._answer
        answering.close()
        raise RuntimeError("a call waited that was taken for one that never does")

    def _keep(self, head: bytes, body: bytes) -> bool:
        self._answer = (head, body)
        return True

    async def _receive(self) -> Mapping[str, Any]:
        return {"type": "http.request", "body": self._body}


def _yes() -> bool:
    return True


async def _send(message: Mapping[str, Any]) -> None:
    raise RuntimeError(f"{message['type']} was sent beside a prepared answer")
