"""Kept connections: each serves one name, at the address that was checked, within limits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from ipaddress import ip_address
from typing import Any

import httpx
import pytest

from kernel.addresses import LOCAL_TOO, PUBLIC_ONLY, Address
from kernel.kept_connections import KeptConnections, Reply

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Site:
    """A server that answers each request with the next of `answers`, the last one again."""

    def __init__(self, *answers: bytes, closes: bool = False) -> None:
        self.answers = list(answers)
        self.closes = closes
        self.heads: list[str] = []
        self.connections = 0
        self.port = 0
        self.tasks: list[asyncio.Task[None] | None] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.append(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
                writer.write(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])
                await writer.drain()
                if self.closes:
                    break
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def served(*answers: bytes, closes: bool = False) -> AsyncIterator[Site]:
    site = Site(*answers, closes=closes)
    async with await asyncio.start_server(site, "127.0.0.1", 0) as server:
        site.port = server.sockets[0].getsockname()[1]
        yield site
        await asyncio.gather(*filter(None, site.tasks))


@contextlib.asynccontextmanager
async def kept(**options: Any) -> AsyncIterator[KeptConnections]:
    connections = KeptConnections(options.pop("policy", LOCAL_TOO), **options)
    try:
        yield connections
    finally:
        await connections.aclose()


async def get(connections: KeptConnections, url: str, **options: Any) -> Reply:
    method = options.pop("method", "GET")
    given = {"headers": {}, "limit": 100, **options}
    return await connections.request(method, httpx.URL(url), **given)


async def test_a_connection_is_kept_for_its_name_alone():
    asked: list[str] = []

    def resolver(name: str, _port: int) -> tuple[Address, ...]:
        asked.append(name)
        return (ip_address("127.0.0.1"),)

    async with served(OK) as site, kept(resolver=resolver) as connections:
        for name in ("one.test", "one.test", "other.test", "one.test"):
            reply = await get(connections, f"http://{name}:{site.port}/x?y=1")
            assert reply.body == b"ok"

    assert asked == ["one.test", "other.test"]
    assert site.connections == 2
    assert site.heads[0].startswith("GET /x?y=1 HTTP/1.1\r\n")
    assert f"Host: one.test:{site.port}\r\n" in site.heads[0]
    assert f"Host: other.test:{site.port}\r\n" in site.heads[2]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "name.test", "169.254.169.254", "0x7f.1"])
async def test_what_the_policy_refuses_is_not_connected_to(host: str):
    """Invariant 23."""
    async with (
        served(OK) as site,
        kept(policy=PUBLIC_ONLY, resolver=lambda *_: (ip_address("10.0.0.1"),)) as connections,
    ):
        with pytest.raises(httpx.ConnectError):
            await get(connections, f"http://{host}:{site.port}/")

    assert site.connections == 0


async def test_the_next_checked_address_is_tried_and_stays():
    addresses = (ip_address("127.0.0.2"), ip_address("127.0.0.1"))
    async with served(OK) as site, kept(resolver=lambda *_: addresses) as connections:
        for _ in range(2):
            await get(connections, f"http://two.test:{site.port}/")

    assert site.connections == 1


@pytest.mark.parametrize(
    ("answer", "closes", "body"),
    [
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            False,
            b"ok",
        ),
        (b"HTTP/1.0 200 OK\r\n\r\nok", True, b"ok"),  # until the connection ends
        (b"HTTP/1.1 204 No Content\r\n\r\n", False, b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", True, b"ok"),
    ],
)
async def test_a_body_ends_where_the_answer_says(answer: bytes, closes: bool, body: bytes):
    async with served(answer, closes=closes) as site, kept() as connections:
        for _ in range(2):
            assert (await get(connections, f"http://127.0.0.1:{site.port}/")).body == body


async def test_an_answer_to_head_has_no_body():
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\nX: a\r\nX: b\r\n\r\n"
    async with served(head) as site, kept() as connections:
        for _ in range(2):
            reply = await get(connections, f"http://127.0.0.1:{site.port}/", method="HEAD")
            assert (reply.status, reply.body, reply.headers["x"]) == (200, b"", "a, b")

    assert site.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nlarge",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nlarge\r\n0\r\n\r\n",
    ],
)
async def test_a_body_beyond_its_limit_is_cut_and_its_connection_is_not_used_again(answer: bytes):
    async with served(answer, OK) as site, kept() as connections:
        cut = await get(connections, f"http://127.0.0.1:{site.port}/", limit=4)
        assert (await get(connections, f"http://127.0.0.1:{site.port}/")).body == b"ok"

    assert (cut.is_cut, cut.body) == (True, b"")
    assert site.connections == 2


async def test_a_second_answer_is_nobodys():
    """Bytes behind an answer are not the answer to the next request."""
    two = OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    async with served(two, OK) as site, kept() as connections:
        for _ in range(2):
            assert (await get(connections, f"http://127.0.0.1:{site.port}/")).body == b"ok"

    assert site.connections == 2


@pytest.mark.parametrize(
    ("answer", "closes"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", False),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, False),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000, False),
        (CHUNKED + b"2\r\nok\r\n0\r\n" + b"X: a\r\n" * 50_000 + b"\r\n", False),
        (CHUNKED + b"2;x=" + b"a" * 300_000 + b"\r\nok\r\n0\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", False),
        (b"", True),
    ],
)
async def test_what_is_no_answer_is_an_error(answer: bytes, closes: bool):
    async with served(answer, closes=closes) as site, kept() as connections:
        with pytest.raises(httpx.RemoteProtocolError):
            await get(connections, f"http://127.0.0.1:{site.port}/")


async def test_a_line_break_in_a_header_is_not_sent():
    async with served(OK) as site, kept() as connections:
        with pytest.raises(httpx.LocalProtocolError):
            await get(connections, f"http://127.0.0.1:{site.port}/", headers={"A": "b\r\nC: d"})

    assert site.heads == []


async def test_a_server_that_says_nothing_is_given_up(monkeypatch):
    monkeypatch.setattr("kernel.kept_connections.READ_S", 0.05)
    async with served(b"") as site, kept() as connections:
        with pytest.raises(httpx.ReadTimeout):
            await get(connections, f"http://127.0.0.1:{site.port}/")


async def test_a_conversation_has_few_origins():
    async with served(OK) as site, kept(resolver=lambda *_: (ip_address("127.0.0.1"),)) as talk:
        for number in range(16):
            await get(talk, f"http://n{number}.test:{site.port}/")
        with pytest.raises(httpx.ConnectError, match="too many hosts"):
            await get(talk, f"http://n16.test:{site.port}/")
