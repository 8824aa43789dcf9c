"""Calls of a data plane below the level of an HTTP client: ASGI scopes, bytes to a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import uvicorn

from kernel.http_protocol import ProblemProtocol

Pairs = Sequence[tuple[bytes, bytes]]


@dataclass
class RawCall:
    """A request as a server hands it over: nothing is normalized."""

    method: str = "GET"
    raw_path: bytes = b"/"
    query: bytes = b""
    headers: Pairs = ()
    chunks: Sequence[bytes] = ()


@dataclass
class RawAnswer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def error(self) -> str:
        return self.headers.get("x-partita-mock-error", "")


async def call(application: Any, asked: RawCall) -> RawAnswer:
    """Return the answer of an ASGI application; fail if it sends anything twice or not at all."""
    headers = [(name.lower(), value) for name, value in asked.headers]
    named = {name for name, _ in headers}
    if asked.chunks and not named & {b"content-length", b"transfer-encoding"}:
        headers.append((b"transfer-encoding", b"chunked"))
    scope = {
        "type": "http", "http_version": "1.1", "scheme": "http", "method": asked.method,
        "path": unquote(asked.raw_path.decode("latin-1")), "raw_path": asked.raw_path,
        "query_string": asked.query, "headers": headers, "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }  # fmt: skip
    waiting = list(asked.chunks) or [b""]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async with asyncio.timeout(20):
        await application(scope, receive, send)
    start, *bodies = sent
    assert start["type"] == "http.response.start"
    assert bodies, "an answer without a body message"
    assert all(message["type"] == "http.response.body" for message in bodies)
    pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]]
    assert not any(mark in text for pair in pairs for text in pair for mark in "\r\n\0")
    body = b"".join(message.get("body", b"") for message in bodies)
    return RawAnswer(start["status"], dict(pairs), body)


@asynccontextmanager
async def serve(application: Any) -> AsyncIterator[int]:
    """Serve by uvicorn; yield the port."""
    config = uvicorn.Config(
        application, port=0, log_level="warning", lifespan="off", http=ProblemProtocol,
        timeout_keep_alive=1,
    )  # fmt: skip
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve())
    while not server.started:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def served(application: Any) -> AsyncIterator[Callable[[bytes], Any]]:
    """Serve by uvicorn; yield what sends raw bytes and returns all that comes back."""
    async with serve(application) as port:

        async def talk(sent: bytes) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(sent)
                async with asyncio.timeout(20):
                    return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.transport.abort()

        yield talk
