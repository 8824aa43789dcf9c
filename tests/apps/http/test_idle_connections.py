"""How long a connection without a request is kept."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from kernel.http_protocol import ProblemProtocol

PROXY_S = 60  # nginx, the load balancers of the clouds


class MovedClock(asyncio.SelectorEventLoop):
    """A loop whose clock tests put forward."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


async def application(scope: Any, _receive: Any, send: Any) -> None:
    if scope["path"] == "/slow":
        await asyncio.sleep(100)
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[tuple[socket.socket, ProblemProtocol]]:
    """A client's socket, and the server's protocol at its other end."""
    config = uvicorn.Config(application, lifespan="off", http=ProblemProtocol, **options)
    config.load()
    ours, its = socket.socketpair()
    _, protocol = await asyncio.get_running_loop().connect_accepted_socket(
        lambda: ProblemProtocol(config=config, server_state=ServerState(), app_state={}), its
    )
    ours.setblocking(False)
    with ours:
        yield ours, protocol


async def pause_before_close_s(**options: Any) -> float:
    """Return when the server will close a connection that has had its answer, in seconds."""
    loop = asyncio.get_running_loop()
    async with connected(**options) as (ours, protocol):
        await loop.sock_sendall(ours, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await loop.sock_recv(ours, 4096)).startswith(b"HTTP/1.1 204")
        timer = protocol.timeout_keep_alive_task
        assert timer is not None
        pause_s = timer.when() - loop.time()
        protocol.transport.close()
    return pause_s


@pytest.mark.parametrize("options", [{}, {"timeout_keep_alive": 5}])
def test_a_proxy_closes_its_idle_connections_before_the_server_does(options: dict[str, int]):
    assert asyncio.run(pause_before_close_s(**options)) > PROXY_S + 10


def test_a_longer_time_can_be_chosen():
    assert asyncio.run(pause_before_close_s(timeout_keep_alive=600)) > 590


def test_the_time_of_a_connection_begins_anew_with_each_answer():
    with asyncio.Runner(loop_factory=MovedClock) as runner:
        runner.run(use_again_and_again())


async def use_again_and_again() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MovedClock)
    async with connected() as (ours, _):
        for path, passes_s in (("/", 50), ("/", 50), ("/slow", 101), ("/", 50)):
            await loop.sock_sendall(ours, f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            if path == "/slow":
                await asyncio.sleep(0.05)  # it has begun, and the time of the timer passes
                loop.ahead_s += passes_s
            assert (await loop.sock_recv(ours, 4096)).startswith(b"HTTP/1.1 204"), path
            if path != "/slow":
                loop.ahead_s += passes_s
                await asyncio.sleep(0.05)  # the timer is looked at while nothing is asked
        loop.ahead_s += 30
        assert await loop.sock_recv(ours, 4096) == b"", "it has been idle for 80 s"


async def ask_in_parts(*parts: bytes, passes_s: float) -> bytes:
    """Return the answer to a head that comes in these parts, with so much time after each."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MovedClock)
    async with connected() as (ours, _):
        for part in parts:
            await loop.sock_sendall(ours, part)
            await asyncio.sleep(0.05)
            loop.ahead_s += passes_s
        return await asyncio.wait_for(loop.sock_recv(ours, 4096), 200)


def answer_to(*parts: bytes, passes_s: float) -> bytes:
    with asyncio.Runner(loop_factory=MovedClock) as runner:
        return runner.run(ask_in_parts(*parts, passes_s=passes_s))


def test_a_head_may_come_in_parts():
    parts = (b"GET / HTTP/1.1\r\n", b"Host: a\r\n", b"\r\n")

    assert answer_to(*parts, passes_s=14).startswith(b"HTTP/1.1 204")


def test_a_head_that_does_not_come_to_its_end_is_given_up_after_half_a_minute():
    answer = answer_to(b"GET / HTTP/1.1\r\n", b"Host: a\r\n", passes_s=16)

    assert answer.startswith(b"HTTP/1.1 408")
    assert b"Connection: close" in answer


def test_a_head_without_end_is_refused_when_it_is_too_large():
    parts = [b"GET / HTTP/1.1\r\n", *[b"X-A: " + b"a" * 20_000 + b"\r\n"] * 4]

    assert answer_to(*parts, passes_s=0).startswith(b"HTTP/1.1 413")


def test_a_connection_without_a_request_ends():
    assert answer_to(b"", passes_s=76) == b""
