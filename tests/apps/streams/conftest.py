"""Followers of streams, as tests want them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from django.db import connection

from apps.streams import api as streams
from apps.streams.services.hub import process_hub, stop_hub

T = TypeVar("T")
PATIENCE_S = 10


async def stored(work: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run store work on a thread that leaves no connection behind."""

    def run() -> T:
        try:
            return work(*args, **kwargs)
        finally:
            connection.close()

    return await asyncio.to_thread(run)


async def append(topic: str, *texts: str, source: str = "db") -> None:
    lines = [json.dumps({"text": text}).encode() for text in texts]
    await stored(streams.append, [streams.Batch(topic, source, lines)])


@dataclass
class Seen:
    """What one reader got, in order; each entry of `ids` stands for one record."""

    ids: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)

    def take(self, frames: bytes) -> None:
        for frame in frames.removesuffix(b"\n\n").split(b"\n\n"):
            self.frames.append(frame)
            if frame.startswith(b"id: "):
                data = json.loads(frame.partition(b"data: ")[2])
                self.ids.append(data["id"])
                self.texts.append(data["line"]["text"])

    def of(self, kind: bytes) -> list[dict[str, Any]]:
        """The data of `event: <kind>` frames."""
        head = b"event: " + kind + b"\ndata: "
        return [json.loads(f.removeprefix(head)) for f in self.frames if f.startswith(head)]


def envelope(topic: str) -> dict[str, Any]:
    return {"executionId": topic.partition(":")[2]}


def follow(topic: str, *, after: int = 0, **kwargs: Any) -> AsyncGenerator[bytes]:
    options: dict[str, Any] = {"member": "line", "envelope": envelope} | kwargs
    return streams.follow(topic, after=after, **options)


async def read_until(
    frames: AsyncGenerator[bytes], seen: Seen, done: Callable[[Seen], bool]
) -> Seen:
    async with asyncio.timeout(PATIENCE_S):
        while not done(seen):
            seen.take(await anext(frames))
    return seen


async def read_all(frames: AsyncGenerator[bytes]) -> Seen:
    seen = Seen()
    async with asyncio.timeout(PATIENCE_S), contextlib.aclosing(frames):
        async for part in frames:
            seen.take(part)
    return seen


@pytest_asyncio.fixture
async def hub():
    yield process_hub()
    await stop_hub()


@pytest.fixture
def open_logs(transactional_db) -> str:
    topic = "execution-logs:run-000000000001"
    streams.open_topics([topic])
    return topic
