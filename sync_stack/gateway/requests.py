"""One HTTP request as the checks see it: ids, headers, and a body that is counted as it comes."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final, Protocol

from kernel.trace_context import parse_traceparent
from sync_stack.core.headers import Headers
from sync_stack.gateway.answers import Code, Refusal
from sync_stack.gateway.rate_limits import MemoryBudget

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
RawHeaders = Sequence[tuple[bytes, bytes]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
CONNECTION: Final = "partita.connection"  # our extension of ASGI: a Connection
BODY_TIMEOUT_S: Final = 30.0
MAX_CORRELATION_ID: Final = 128
_CORRELATION_ID: Final = re.compile(r"[A-Za-z0-9._:-]+")
_ID_BYTES: Final = 16 + 16 + 16 + 8  # request, correlation, trace, span


class Connection(Protocol):
    """What a request may ask the connection that it came over."""

    def is_gone(self) -> bool:
        """Whether the peer has closed it."""
        ...

    def is_body_here(self, scope: Scope) -> bool:
        """Whether `receive` gives the rest of this request's body without waiting."""
        ...

    def answer(self, scope: Scope, status: int, headers: RawHeaders, body: bytes) -> bool:
        """Write a whole answer at once; False: it must go the usual way."""
        ...


class Request:
    """The body may be read once; what it holds in memory is given back by `release`."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = Headers(scope["headers"])
        self.peer: str = (scope.get("client") or ("",))[0]
        self.receive = receive
        noise = os.urandom(_ID_BYTES).hex()  # of all ids at once
        self.request_id = noise[:32]
        self.correlation_id = _correlation_id(self.headers) or _uuid4(noise[32:64])
        given = self.headers.get("traceparent")
        parent = parse_traceparent(given) if given else None
        self.parent_span_id = parent.span_id if parent else ""
        trace_id, flags = (parent.trace_id, parent.sampled) if parent else (noise[64:96], True)
        # Text, as it is passed on: only an export needs more.
        self.traceparent = f"00-{trace_id}-{noise[96:]}-{flags:02x}"
        self._scope = scope
        self._connection: Connection | None = (scope.get("extensions") or {}).get(CONNECTION)
        self.sender = ""  # the address that limits apply to
        self.body_complete = False
        self._held: tuple[MemoryBudget, int] | None = None

    @property
    def declared_length(self) -> int | None:
        """Content-Length, which the parser has checked; None when absent."""
        text = self.headers.get("content-length")
        return int(text) if text.isdecimal() and text.isascii() else None

    @property
    def has_body(self) -> bool:
        return bool(self.declared_length) or "transfer-encoding" in self.headers

    def is_gone(self) -> bool:
        """Whether whoever sent it has closed the connection."""
        return self._connection is not None and self._connection.is_gone()

    def answer_at_once(self, status: int, headers: RawHeaders, body: bytes) -> bool:
        """Write a whole answer; False: it must go through ASGI."""
        connection = self._connection
        return connection is not None and connection.answer(self._scope, status, headers, body)

    async def read_body(self, limit: int, held: MemoryBudget) -> bytes:
        """Raises Refusal as soon as it is too large, too much at once, too slow or cut off."""
        if self._connection is not None and self._connection.is_body_here(self._scope):
            # Nothing to wait for, so no clock to set.
            return await self._read(limit, held)
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                return await self._read(limit, held)
        except TimeoutError:
            message = f"the body did not arrive within {BODY_TIMEOUT_S:g} s"
            raise Refusal(Code.BODY_READ_FAILED, message) from None

    def release(self) -> None:
        """The body is no longer in memory."""
        if self._held is not None:
            held, size = self._held
            held.release(self.sender, size)
            self._held = None

    async def _read(self, limit: int, held: MemoryBudget) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while not self.body_complete:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Refusal(Code.BODY_READ_FAILED, "the body ended too early")
            self.body_complete = not message.get("more_body", False)
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise too_large(limit)
            self._hold(held, size, len(chunk), limit)
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _hold(self, held: MemoryBudget, size: int, more: int, limit: int) -> None:
        refused_by = held.take(self.sender, more, one_body=limit)
        if refused_by:
            raise rate_limited(refused_by, 1, "too many bytes of bodies are held at once")
        self._held = (held, size)


def too_large(limit: int) -> Refusal:
    return Refusal(Code.BODY_TOO_LARGE, f"the body is larger than {limit} bytes")


def rate_limited(scope: str, retry_after_s: int, message: str) -> Refusal:
    return Refusal(
        Code.RATE_LIMITED,
        message,
        retry_after_s=retry_after_s,
        headers=((b"x-ratelimit-scope", scope.encode()),),
    )


def _correlation_id(headers: Headers) -> str:
    given = headers.get("x-correlation-id")
    if given and _CORRELATION_ID.fullmatch(given):
        return given[:MAX_CORRELATION_ID]
    return ""


def _uuid4(noise: str) -> str:
    """Of 32 random hex digits."""
    variant = "89ab"[int(noise[16], 16) & 3]
    return f"{noise[:8]}-{noise[8:12]}-4{noise[13:16]}-{variant}{noise[17:20]}-{noise[20:]}"
