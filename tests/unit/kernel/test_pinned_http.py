"""Requests go to the address that was checked, with the name they were made for."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from kernel.addresses import LOCAL_TOO, PUBLIC_ONLY, Address
from kernel.pinned_http import pinned_client

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Site:
    """A server on a loopback port that keeps the heads of its requests."""

    def __init__(self, answer: bytes = ANSWER) -> None:
        self.answer = answer
        self.heads: list[str] = []
        self.port = 0
        self.connections: list[asyncio.Task[None] | None] = []
        self.reused = 0  # requests over a connection that had served another

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError):
            for served_before in itertools.count():
                self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
                self.reused += bool(served_before)
                writer.write(self.answer)
                await writer.drain()
        writer.close()
        await writer.wait_closed()


@contextlib.asynccontextmanager
async def served(site: Site, host: str = "127.0.0.1") -> AsyncIterator[Site]:
    async with await asyncio.start_server(site, host, 0) as server:
        site.port = server.sockets[0].getsockname()[1]
        yield site
        await asyncio.gather(*filter(None, site.connections))


def resolver(*texts: str, asked: list[str] | None = None) -> Callable[..., tuple[Address, ...]]:
    def answers(name: str, _port: int) -> tuple[Address, ...]:
        if asked is not None:
            asked.append(name)
        return tuple(ipaddress.ip_address(text) for text in texts)

    return answers


async def test_the_host_stays_the_name_and_the_address_is_the_pinned_one():
    asked: list[str] = []
    resolving = resolver("127.0.0.1", asked=asked)
    async with served(Site()) as site, pinned_client(LOCAL_TOO, resolver=resolving) as client:
        answer = await client.get(f"http://name.test:{site.port}/path?x=1")

    assert answer.text == "ok"
    assert asked == ["name.test"]
    assert site.heads[0].startswith("GET /path?x=1 HTTP/1.1\r\n")
    assert f"Host: name.test:{site.port}\r\n" in site.heads[0]


async def test_the_certificate_must_have_the_name():
    """The name goes into the TLS greeting, where the address could not."""
    greeting = asyncio.get_running_loop().create_future()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeting.set_result(await reader.read(4096))
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with pinned_client(LOCAL_TOO, resolver=resolver("127.0.0.1")) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get(f"https://name.test:{port}/")

    assert b"name.test" in await greeting


async def test_the_next_address_is_tried_when_one_does_not_answer():
    async with served(Site()) as site:
        addresses = resolver("127.0.0.2", "127.0.0.1")
        async with pinned_client(LOCAL_TOO, resolver=addresses) as client:
            answer = await client.get(f"http://name.test:{site.port}/")

    assert answer.status_code == 200


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1", "10.0.0.1"])
async def test_what_the_policy_refuses_is_not_connected_to(address: str):
    """Invariant 23."""
    literal = f"[{address}]" if ":" in address else address
    resolving = resolver(address)
    async with served(Site()) as site, pinned_client(PUBLIC_ONLY, resolver=resolving) as client:
        for host in ("name.test", literal):
            with pytest.raises(httpx.ConnectError, match="may not go"):
                await client.get(f"http://{host}:{site.port}/")

    assert site.heads == []


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1"])
async def test_other_notations_of_an_address_are_not_connected_to(host: str):
    """Invariant 23."""
    async with served(Site()) as site, pinned_client(LOCAL_TOO) as client:
        with pytest.raises((httpx.ConnectError, httpx.InvalidURL)):
            await client.get(f"http://{host}:{site.port}/")

    assert site.heads == []


async def test_a_name_that_moves_after_the_check_is_not_followed():
    """Invariant 23: the second answer of the resolver is checked as the first was."""
    answers = iter(["127.0.0.1", "169.254.169.254"])
    async with served(Site()) as site:
        rebinding = lambda _name, _port: (ipaddress.ip_address(next(answers)),)  # noqa: E731
        async with pinned_client(LOCAL_TOO, resolver=rebinding) as client:
            assert (await client.get(f"http://rebind.test:{site.port}/")).status_code == 200
            with pytest.raises(httpx.ConnectError, match="169"):
                await client.get(f"http://rebind.test:{site.port}/")


async def test_a_redirect_that_a_caller_follows_is_checked_too():
    """Invariant 23."""
    target = Site()
    async with served(target), served(Site()) as site:
        location = f"http://[::ffff:169.254.169.254]:{target.port}/"
        site.answer = (
            f"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: {location}\r\n\r\n".encode()
        )
        async with pinned_client(LOCAL_TOO) as client:
            plain = await client.get(f"http://127.0.0.1:{site.port}/")
            with pytest.raises(httpx.ConnectError, match="may not go"):
                await client.get(f"http://127.0.0.1:{site.port}/", follow_redirects=True)

    assert plain.status_code == 302
    assert target.heads == []


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch):
    """Invariant 22."""
    async with served(Site()) as proxy, served(Site()) as site:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with pinned_client(LOCAL_TOO) as client:
            await client.get(f"http://127.0.0.1:{site.port}/")

    assert (len(proxy.heads), len(site.heads)) == (0, 1)


async def test_a_connection_is_not_kept_for_another_name_of_the_address():
    resolving = resolver("127.0.0.1")
    async with served(Site()) as site, pinned_client(LOCAL_TOO, resolver=resolving) as client:
        await client.get(f"http://one.test:{site.port}/")
        await client.get(f"http://two.test:{site.port}/")

    assert ("one.test" in site.heads[0], "two.test" in site.heads[1]) == (True, True)
    assert site.reused == 0


@pytest.mark.timed
async def test_a_resolver_that_hangs_holds_up_nobody_who_gives_up():
    answers = threading.Event()

    def hangs(_name: str, _port: int) -> tuple[Address, ...]:
        answers.wait(30)
        return ()

    began = time.monotonic()
    async with pinned_client(LOCAL_TOO, resolver=hangs) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.get("http://slow.test/")

    assert time.monotonic() - began < 10
    answers.set()
