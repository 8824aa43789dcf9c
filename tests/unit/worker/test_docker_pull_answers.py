"""What an engine says of a pull, in whatever pieces it comes."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from worker.runtimes.docker.images import _problem


async def pieces(*parts: bytes) -> AsyncGenerator[bytes]:
    for part in parts:
        yield part


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((b'{"status":"Pulling"}\r\n', b'{"status":"Done"}\r\n'), ""),
        ((b'{"status":"Pulling"}\n{"error":"no such ', b'tag"}\n'), "no such tag"),
        ((b'{"status":"Pulling"}\n', b'{"error":"disk full"}'), "disk full"),
        ((b"bad gateway\n",), "bad gateway"),
        ((b'["not an object"]\n',), '["not an object"]'),
        ((), ""),
    ],
)
async def test_a_failure_is_found_wherever_it_stands(answer: tuple[bytes, ...], problem: str):
    assert await _problem(pieces(*answer)) == problem
