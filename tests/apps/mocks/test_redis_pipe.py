"""The connection of mocks to Redis: commands in flight together, and what ends it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kernel.redis_breaker import RedisUnavailable
from mocks.redis_link import RedisLink

REDIS = os.environ.get("TEST_REDIS_ADDR", "")
ECHO = "return ARGV[1]"
OK = b"+OK\r\n"
Answer = Callable[[int], Awaitable[bytes]]  # told which of the scripts it is, from 0


@asynccontextmanager
async def fake_redis(answer: Answer) -> AsyncIterator[str]:
    """Serve what greets as Redis does and answers each script as told; b"" closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        count = 0
        try:
            while (line := await reader.readline())[:1] == b"*":
                words = []
                for _ in range(int(line[1:])):
                    size = int((await reader.readline())[1:])
                    words.append((await reader.readexactly(size + 2))[:-2])
                said = OK
                if words[0] in (b"EVALSHA", b"EVAL"):
                    said, count = await answer(count), count + 1
                if not said:
                    break
                writer.write(said)
        finally:
            writer.transport.abort()

    serving: list[Any] = []
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
        for each in serving:
            each.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


@pytest.fixture
async def link() -> AsyncIterator[RedisLink]:
    if not REDIS:
        pytest.skip("needs Redis: TEST_REDIS_ADDR is not set (run `make test`)")
    made = RedisLink(f"redis://{REDIS}/0")
    yield made
    await made.close()


@pytest.mark.redis
async def test_each_of_many_answers_finds_its_command(link: RedisLink):
    sent = [f"{number} ü\r\n" * (number % 50) for number in range(500)]
    found = await asyncio.gather(*(link.run(ECHO, (), (text,)) for text in sent))
    assert [each.decode() for each in found] == sent
    assert await link.run("return tonumber(ARGV[1])", (), (7,)) == 7
    assert await link.run("return false", (), ()) is None
    large = "x" * 3_000_000
    assert await link.run(ECHO, (), (large,)) == large.encode()


@pytest.mark.redis
async def test_a_script_that_redis_has_forgotten_is_sent_again(link: RedisLink):
    assert await link.run(ECHO, (), ("a",)) == b"a"
    await asyncio.to_thread(link._of_threads().script_flush)
    assert await link.run(ECHO, (), ("b",)) == b"b"


@pytest.mark.redis
async def test_a_caller_that_leaves_takes_no_answer_of_another(link: RedisLink):
    await link.run(ECHO, (), ("warm",))
    left = [asyncio.create_task(link.run(ECHO, (), (f"left {n}",))) for n in range(20)]
    await asyncio.sleep(0)
    stayed = [asyncio.create_task(link.run(ECHO, (), (f"{n}",))) for n in range(20)]
    for each in left:
        each.cancel()
    assert await asyncio.gather(*stayed) == [b"%d" % n for n in range(20)]


@pytest.mark.redis
async def test_an_error_of_a_script_is_an_absence_and_ends_no_other(link: RedisLink):
    wrong = link.run("return redis.call('NONE')", (), ())
    found = await asyncio.gather(wrong, link.run(ECHO, (), ("a",)), return_exceptions=True)
    assert isinstance(found[0], RedisUnavailable)
    assert found[1] == b"a"


async def _late(_number: int) -> bytes:
    await asyncio.sleep(30)
    raise AssertionError


async def _closed(_number: int) -> bytes:
    return b""


async def _other(_number: int) -> bytes:
    return b"%1\r\n$1\r\na\r\n:1\r\n"


async def _garbage(_number: int) -> bytes:
    return b"$x\r\n"


@pytest.mark.parametrize("answer", [_late, _closed, _other, _garbage])
async def test_whoever_waits_is_told_when_redis_does_not_answer_as_it_should(answer: Answer):
    async with fake_redis(answer) as url:
        link = RedisLink(url)
        begun = time.monotonic()
        async with asyncio.timeout(10):
            found = await asyncio.gather(
                *(link.run(ECHO, (), ("a",)) for _ in range(20)), return_exceptions=True
            )
        assert all(isinstance(each, RedisUnavailable) for each in found), found
        assert link.is_away
        assert time.monotonic() - begun < 8
        await link.close()


async def test_pieces_of_answers_are_put_together():
    async def split(number: int) -> bytes:
        await asyncio.sleep(0.01)
        return (b"$4\r\nab", b"\r\n\r\n:", b"12\r\n$-1\r\n")[number]

    async with fake_redis(split) as url:
        link = RedisLink(url)
        asked: list[Any] = [asyncio.create_task(link.run(ECHO, (), ())) for _ in range(3)]
        assert await asyncio.gather(*asked) == [b"ab\r\n", 12, None]
        await link.close()


async def test_a_broken_connection_is_made_anew():
    async def once(number: int) -> bytes:
        return b":1\r\n" if number == 0 else b""

    now = [0.0]
    async with fake_redis(once) as url:
        link = RedisLink(url, clock=lambda: now[0])
        for _ in range(3):
            assert await link.run(ECHO, (), ()) == 1
            with pytest.raises(RedisUnavailable):
                await link.run(ECHO, (), ())
            now[0] += 10
        assert link.returns == 2
        await link.close()
