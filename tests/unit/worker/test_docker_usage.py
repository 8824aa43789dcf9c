"""Docker's figures over the socket, also from an engine that answers badly or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kernel import clock
from kernel.agent_protocol import StepUsage
from worker.domain.runtime import RuntimeOptions, Unit, UnitState
from worker.runtimes.docker import engine_http
from worker.runtimes.docker.runtime import DockerRuntime

UNIT = Unit(id="abc", name="unit", state=UnitState.RUNNING)
STATS: dict[str, Any] = {
    "cpu_stats": {"cpu_usage": {"total_usage": 5 * 10**8}},
    "memory_stats": {"usage": 100, "stats": {"inactive_file": 40}},
}


@asynccontextmanager
async def engine(path: Path, answer: bytes | None) -> AsyncGenerator[list[str]]:
    """Yields the request lines that come; None: it takes the request and says nothing."""
    asked: list[str] = []
    served: list[asyncio.Task[Any] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode().splitlines()[0])
        if answer is None:
            await reader.read()
        else:
            writer.write(answer)
        writer.close()
        with contextlib.suppress(OSError):  # who asked may be gone
            await writer.wait_closed()

    server = await asyncio.start_unix_server(serve, path / "e.sock")
    async with server:
        yield asked
    await asyncio.gather(*filter(None, served))


def ok(body: str) -> bytes:
    return f"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{body}".encode()


async def usage(path: Path, unit: Unit = UNIT) -> StepUsage | None:
    options = RuntimeOptions(
        state_dir=path, installation_id="x", address=f"unix://{path / 'e.sock'}"
    )
    runtime = DockerRuntime(options)
    try:
        return await runtime.usage(unit)
    finally:
        await runtime.close()


async def test_one_question_tells_cpu_since_the_start_and_memory(tmp_path: Path):
    unit = replace(UNIT, started_at=clock.now() - timedelta(seconds=10))
    async with engine(tmp_path, ok(json.dumps(STATS))) as asked:
        used = await usage(tmp_path, unit)

    assert used is not None
    assert used.cpu_percent == pytest.approx(5, abs=0.3)
    assert used.memory_bytes == 60
    assert asked == ["GET /containers/abc/stats?stream=0&one-shot=1 HTTP/1.0"]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 404 Not Found\r\n\r\n{}",
        b"HTTP/1.0 500 Internal Server Error\r\n\r\n",
        ok("{"),
        ok("[]"),
        ok('{"memory_stats": {"usage": "much"}}'),
        ok('{"cpu_stats": {}, "memory_stats": {}}'),
        b"",
        b"nonsense\r\n\r\n",
    ],
)
async def test_a_bad_answer_is_no_figure(tmp_path: Path, answer: bytes):
    async with engine(tmp_path, answer):
        assert await usage(tmp_path) is None


async def test_no_engine_is_no_figure(tmp_path: Path):
    assert await usage(tmp_path) is None


async def test_an_engine_that_is_silent_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(engine_http, "_ANSWER_S", 0.05)
    async with engine(tmp_path, None):
        async with asyncio.timeout(2):
            assert await usage(tmp_path) is None


async def test_an_endless_answer_is_not_kept(tmp_path: Path):
    async with engine(tmp_path, ok(" " * 2**21)):
        assert await usage(tmp_path) is None
