"""A server of scripted HTTP/1.1 answers on 127.0.0.1, which keeps what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

Answers = dict[str, bytes] | Callable[[str], bytes]


@dataclass
class Asked:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class HttpSite:
    """`answers`: by target, `*` for others; each answer is raw, and the connection then closes."""

    answers: Answers
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    tasks: list[asyncio.Task[None] | None] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.append(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip().split("\r\n")
            method, target, _ = first.split(" ")
            headers = {
                name.lower(): value for name, _, value in (line.partition(": ") for line in lines)
            }
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.asked.append(Asked(method, target, headers, body))
            writer.write(self.answer(target))
            await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    def answer(self, target: str) -> bytes:
        if callable(self.answers):
            return self.answers(target)
        return self.answers.get(target, self.answers.get("*", b""))


@contextlib.asynccontextmanager
async def http_site(answers: Answers, *, host: str = "127.0.0.1") -> AsyncIterator[HttpSite]:
    site = HttpSite(answers)
    async with await asyncio.start_server(site, host, 0) as server:
        site.port = server.sockets[0].getsockname()[1]
        yield site
        await asyncio.gather(*filter(None, site.tasks))


def reply(body: bytes = b"", *, status: int = 200, **headers: str) -> bytes:
    """Return an answer; `_` in the names of headers stands for `-`."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def raw_site(talk: Talk) -> AsyncIterator[str]:
    """Serve each connection by `talk`; yield the URL. What still talks at the end is cancelled."""
    tasks: list[asyncio.Task[None] | None] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.current_task())
        try:
            await talk(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        talking = list(filter(None, tasks))
        for task in talking:
            task.cancel()
        await asyncio.gather(*talking, return_exceptions=True)
