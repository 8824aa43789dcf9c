"""Requests to the engine without its SDK: logs, waits, statistics, programs in containers.

The SDK's log iterator drops the stream of each record, needs one thread per container, and would
hold it while an engine does not answer.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Container, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from worker.domain.output_records import HEADER, FrameReader, OutputRecord
from worker.runtimes.docker.engine import READ_SIZE, EngineAddress, connect

_CONNECT_S: Final = 10.0
_ANSWER_S: Final = 5.0
_ANSWER_LIMIT: Final = 2**20
_LENGTH: Final = re.compile(r"\r\ncontent-length: *(\d{1,9})\r\n")
_NO_HEADERS: Final[Mapping[str, str]] = {}
_STDERR: Final = 2
_NO_TERMINAL: Final = {"Detach": False, "Tty": False}
_SAID_LIMIT: Final = 4096
_NANOSECONDS: Final = 1e9
# of control groups version 1 and 2: files kept in memory that the kernel takes back when needed
_CACHES: Final = ("total_inactive_file", "inactive_file")


class ConnectionBroken(Exception):
    """The connection ended before the answer was complete."""


class EngineRefused(Exception):
    """The engine answered with an error status; `message`: its message, if it sent one."""

    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.message = message


FAILURES: Final = (OSError, TimeoutError, ConnectionBroken, EngineRefused)


async def read(
    address: EngineAddress, unit_id: str, frames: FrameReader, *, follow: bool
) -> AsyncGenerator[list[OutputRecord]]:
    """Until the log's end; with `follow` until the unit's. Raises OSError, EngineRefused.

    Whether it was read to its end, `last_frame` tells: a connection may break, and a follower that
    the engine let wait just when the unit ended may miss the log's last part (seen with Docker
    20.10 under load).
    """
    async for data in _stream_unchunked(address, f"{_logs(unit_id)}&follow={int(follow)}"):
        if records := frames.feed(data):
            yield records


async def last_frame(address: EngineAddress, unit_id: str) -> bytes:
    """Return the log's last frame, empty for an empty log.

    Raises OSError, ConnectionBroken, EngineRefused.
    """
    frames = FrameReader(0)
    frames.feed(await whole_answer(address, f"{_logs(unit_id)}&tail=1"))
    return frames.last


def _logs(unit_id: str) -> str:
    return f"/containers/{unit_id}/logs?stdout=1&stderr=1&timestamps=1"


async def wait_for_end(address: EngineAddress, unit_id: str) -> None:
    """Return when the unit does not run. Raises OSError, ConnectionBroken, EngineRefused."""
    async for _ in body(address, "POST", f"/containers/{unit_id}/wait?condition=not-running"):
        pass


async def whole_answer(address: EngineAddress, path: str) -> bytes:
    """Return the body of a small answer.

    Raises OSError, TimeoutError, ConnectionBroken, EngineRefused.
    """
    body = b""
    async with asyncio.timeout(_ANSWER_S):
        async for data in _stream_unchunked(address, path):
            body += data
            if len(body) > _ANSWER_LIMIT:
                raise ConnectionBroken
    return body


async def _stream_unchunked(address: EngineAddress, path: str) -> AsyncGenerator[bytes]:
    """Stream an answer by HTTP/1.0, which is never chunked and ends with its connection.

    The engine sends each line of a log as a chunk of its own: to take those apart cost more than
    what they hold.
    """
    async with asyncio.timeout(_CONNECT_S):
        reader, writer = await connect(address)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
        await head(reader)
        while data := await reader.read(READ_SIZE):
            yield data
    finally:
        writer.close()


async def body(
    address: EngineAddress, method: str, path: str, *, headers: Mapping[str, str] = _NO_HEADERS
) -> AsyncGenerator[bytes]:
    """Yield the body of an answer.

    Raises OSError, TimeoutError, ConnectionBroken, EngineRefused.
    """
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    async with asyncio.timeout(_CONNECT_S):
        reader, writer = await connect(address)
    try:
        writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: docker\r\nContent-Length: 0\r\n{more}\r\n".encode()
        )
        if "transfer-encoding: chunked" not in await head(reader):
            raise ConnectionBroken
        chunks = _Chunks()
        while not chunks.ended:
            data = await reader.read(READ_SIZE)
            if not data:
                raise ConnectionBroken
            if content := chunks.feed(data):
                yield content
    finally:
        writer.close()


async def head(reader: asyncio.StreamReader, *, accepted: Container[int] = (200,)) -> str:
    """Return the head of an answer in lower case. Raises ConnectionBroken, EngineRefused."""
    try:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    except asyncio.IncompleteReadError:
        raise ConnectionBroken from None
    status = int(text.split(" ", 2)[1])
    if status not in accepted:
        raise EngineRefused(status, await _message(reader, text))
    return text


async def _message(reader: asyncio.StreamReader, head_text: str) -> str:
    """Return the message of an error's body; empty if it cannot be read."""
    length = _LENGTH.search(head_text)
    try:
        async with asyncio.timeout(_ANSWER_S):
            raw = await reader.readexactly(min(int(length[1]), _ANSWER_LIMIT) if length else 0)
        return str(json.loads(raw)["message"])
    except (TimeoutError, asyncio.IncompleteReadError, ValueError, KeyError, TypeError):
        return ""


class _Chunks:
    """Decodes HTTP/1.1 chunks; `ended` is set after the last, empty chunk."""

    def __init__(self) -> None:
        self.ended = False
        self._buffer = b""
        self._open = 0  # bytes of the current chunk, with its CR LF, still to come

    def feed(self, data: bytes) -> bytes:
        data, start, parts = self._buffer + data, 0, []
        while True:
            if self._open > 2:  # noqa: PLR2004 - the CR LF
                part = data[start : start + self._open - 2]
                parts.append(part)
                start += len(part)
                self._open -= len(part)
            if self._open:
                if len(data) - start < self._open:
                    break
                start += self._open
                self._open = 0
            line_end = data.find(b"\r\n", start)
            if line_end < 0 or self.ended:
                break
            size = int(data[start:line_end].split(b";")[0], 16)
            start = line_end + 2
            self.ended = size == 0
            self._open = size + 2
        self._buffer = data[start:]
        return b"".join(parts)


class Attached:
    """A program in a container, attached; `said`: the end of its stderr."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.said = b""

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def output(self) -> AsyncGenerator[bytes]:
        """Yield the program's stdout until it ends."""
        while True:
            try:
                stream, length = HEADER.unpack(await self._reader.readexactly(HEADER.size))
                data = await self._reader.readexactly(length)
            except asyncio.IncompleteReadError:
                return
            if stream == _STDERR:
                self.said = (self.said + data)[-_SAID_LIMIT:]
            else:
                yield data


@asynccontextmanager
async def attach(address: EngineAddress, program: str) -> AsyncGenerator[Attached]:
    """Start a created exec; the caller sets the limit.

    Raises OSError, ConnectionBroken, EngineRefused.
    """
    reader, writer = await upgrade(address, f"/exec/{program}/start", _NO_TERMINAL)
    try:
        yield Attached(reader, writer)
    finally:
        writer.close()


async def upgrade(
    address: EngineAddress, path: str, content: Mapping[str, Any]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a POST whose connection then belongs to a program; the caller sets the limit.

    Raises OSError, ConnectionBroken, EngineRefused.
    """
    data = json.dumps(content).encode()
    reader, writer = await connect(address)
    try:
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: docker\r\n"
            "Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n".encode()
            + data
        )
        await head(reader, accepted=(101, 200))
    except BaseException:
        writer.close()
        raise
    return reader, writer


async def exists(address: EngineAddress, path: str) -> bool:
    """Return whether the engine has what a path names.

    Raises OSError, TimeoutError, ConnectionBroken, EngineRefused.
    """
    async with asyncio.timeout(_ANSWER_S):
        reader, writer = await connect(address)
        try:
            writer.write(f"HEAD {path} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
            return " 404 " not in (await head(reader, accepted=(200, 404))).partition("\r\n")[0]
        finally:
            writer.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """`cpu_s`: since the start. The peak is told by version 1 only, and counts cached files."""

    cpu_s: float
    memory_bytes: int
    memory_peak_bytes: int | None


async def counters_of(address: EngineAddress, unit_id: str) -> Counters | None:
    """Return the usage counters, None if the unit does not run.

    Raises OSError, TimeoutError, ConnectionBroken, EngineRefused.
    """
    path = f"/containers/{unit_id}/stats?stream=0&one-shot=1"
    try:
        return parse_counters(json.loads(await whole_answer(address, path)))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConnectionBroken from error


def parse_counters(stats: Mapping[str, Any]) -> Counters | None:
    memory = stats["memory_stats"]
    if not memory.get("usage"):  # of a container that has ended everything is empty or zero
        return None
    return Counters(
        cpu_s=stats["cpu_stats"]["cpu_usage"]["total_usage"] / _NANOSECONDS,
        memory_bytes=_without_cache(int(memory["usage"]), memory.get("stats") or {}),
        memory_peak_bytes=int(memory["max_usage"]) if memory.get("max_usage") else None,
    )


def _without_cache(usage: int, details: Mapping[str, int]) -> int:
    """Return the memory figure of `docker stats`."""
    cached = next((details[name] for name in _CACHES if name in details), 0)
    return max(0, usage - cached if cached < usage else usage)
