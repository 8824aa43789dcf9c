"""A request as the checks see it: ids, headers, and a body that is counted while it arrives."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from typing import Final, Protocol

from kernel.trace_context import parse_traceparent
from sync_stack.core.headers import Headers
from sync_stack.gateway.rate_limits import MemoryBudget
from sync_stack.gateway.responses import Code, Refusal
from sync_stack.rpc.http_thread import Receive, Scope

RawHeaders = Sequence[tuple[bytes, bytes]]
CONNECTION: Final = "partita.connection"  # an ASGI extension: the Connection
BODY_TIMEOUT_S: Final = 30.0
MAX_ID: Final = 128
_ID: Final = re.compile(r"[A-Za-z0-9._:-]+")
_ID_BYTES: Final = 16 + 16 + 16 + 8  # request, correlation, trace, span


class Connection(Protocol):
    """The part of a connection that its requests use."""

    def is_gone(self) -> bool:
        """Return whether the peer has closed it."""
        ...

    def is_body_here(self, scope: Scope) -> bool:
        """Return whether `receive` gives the rest of this request's body without waiting."""
        ...

    def write_response(self, scope: Scope, status: int, headers: RawHeaders, body: bytes) -> bool:
        """Write a whole response; return False when it must go through ASGI."""
        ...


class WebhookRequest:
    """A request whose body may be read once; `release` returns its memory to the budget."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = Headers(scope["headers"])
        self.peer: str = (scope.get("client") or ("",))[0]
        self.receive = receive
        noise = os.urandom(_ID_BYTES).hex()  # one call for all ids
        self.owner_id = noise[:32]  # of what it reserves: never chosen by the sender
        self.request_id = self._given_id("x-request-id") or self.owner_id
        self.correlation_id = self._given_id("x-correlation-id") or _uuid4(noise[32:64])
        given = self.headers.get("traceparent")
        parent = parse_traceparent(given) if given else None
        self.parent_span_id = parent.span_id if parent else ""
        trace_id, flags = (parent.trace_id, parent.sampled) if parent else (noise[64:96], True)
        # Kept as text, because it is only forwarded; an export parses it.
        self.traceparent = f"00-{trace_id}-{noise[96:]}-{flags:02x}"
        self._scope = scope
        self._connection: Connection | None = (scope.get("extensions") or {}).get(CONNECTION)
        self.sender = ""  # the address that limits apply to
        self.body_complete = False
        self._taken: tuple[MemoryBudget, int] | None = None

    def _given_id(self, header: str) -> str:
        """Return the sender's id, cut to MAX_ID characters; empty when absent or unusable."""
        given = self.headers.get(header)
        return given[:MAX_ID] if given and _ID.fullmatch(given) else ""

    @property
    def declared_length(self) -> int | None:
        """The Content-Length, which the parser has checked; None when absent."""
        text = self.headers.get("content-length")
        return int(text) if text.isdecimal() and text.isascii() else None

    @property
    def has_body(self) -> bool:
        return bool(self.declared_length) or "transfer-encoding" in self.headers

    def is_gone(self) -> bool:
        """Return whether the sender has closed the connection."""
        return self._connection is not None and self._connection.is_gone()

    def write_response(self, status: int, headers: RawHeaders, body: bytes) -> bool:
        """Write a whole response; return False when it must go through ASGI."""
        connection = self._connection
        return connection is not None and connection.write_response(
            self._scope, status, headers, body
        )

    async def read_body(self, limit: int, memory: MemoryBudget) -> bytes:
        """Raise Refusal as soon as it is too large, over the budget, too slow or cut off."""
        if self._connection is not None and self._connection.is_body_here(self._scope):
            return await self._read(limit, memory)  # nothing to wait for: no timeout to set
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                return await self._read(limit, memory)
        except TimeoutError:
            message = f"the body was not received within {BODY_TIMEOUT_S:g} s"
            raise Refusal(Code.BODY_READ_FAILED, message) from None

    def release(self) -> None:
        """Return the memory of the body to the budget."""
        if self._taken is not None:
            memory, size = self._taken
            memory.release(self.sender, size)
            self._taken = None

    async def _read(self, limit: int, memory: MemoryBudget) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while not self.body_complete:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Refusal(Code.BODY_READ_FAILED, "the connection closed before the body ended")
            self.body_complete = not message.get("more_body", False)
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise too_large(limit)
            if refused_by := memory.take(self.sender, len(chunk), one_body=limit):
                raise rate_limit_refusal(refused_by, 1, "too many request bodies are in memory")
            self._taken = (memory, size)
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def too_large(limit: int) -> Refusal:
    return Refusal(Code.BODY_TOO_LARGE, f"the body is larger than {limit} bytes")


def rate_limit_refusal(scope: str, retry_after_s: int, message: str) -> Refusal:
    return Refusal(
        Code.RATE_LIMITED,
        message,
        retry_after_s=retry_after_s,
        headers=((b"x-ratelimit-scope", scope.encode()),),
    )


def _uuid4(noise: str) -> str:
    """Return a version 4 UUID made of 32 random hex digits."""
    variant = "89ab"[int(noise[16], 16) & 3]
    return f"{noise[:8]}-{noise[8:12]}-4{noise[13:16]}-{variant}{noise[17:20]}-{noise[20:]}"
