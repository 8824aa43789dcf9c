"""Server-sent events as a client reads them (reference: control-plane 12)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True, slots=True)
class Frame:
    """`id` is 0 for a frame without one; `event` empty for a record."""

    id: int
    event: str
    data: dict[str, Any]


def recorded(client: httpx.Client, path: str, **parameters: str) -> str:
    """The whole of a stream, byte for byte, until the server ends it."""
    with client.stream("GET", path, params=parameters, timeout=120) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-cache"
        return "".join(answer.iter_text())


def frames(transcript: str) -> list[Frame]:
    """Records and ends, without comments (`: connected`, `: ping`). Half a record is refused."""
    assert transcript.startswith(": connected\n\n"), transcript[:80]
    assert transcript.endswith("\n\n"), transcript[-200:]
    return list(_frames(transcript))


def _frames(transcript: str) -> Iterator[Frame]:
    for block in transcript.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if fields:
            assert set(fields) <= {"id", "event", "data"}, block
            yield Frame(
                int(fields.get("id", 0)), fields.get("event", ""), json.loads(fields["data"])
            )
