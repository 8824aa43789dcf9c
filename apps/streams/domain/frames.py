"""Server-sent events (reference: control-plane 12). Records are JSON bytes already."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from apps.streams.domain.chunks import Chunk

CONNECTED: Final = b": connected\n\n"
PING: Final = b": ping\n\n"
MOST_RECORDS: Final = 1000  # what one connection may lie behind before it reads from the store
MOST_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True)
class Wrapping:
    """What stands around a record in `data`: `{"id":7,<fields>,"<member>":<record>}`."""

    member: str
    fields: Mapping[str, Any]

    def template(self) -> bytes:
        """Takes the number twice, then the record; for `%`."""
        inner = json.dumps(self.fields, separators=(",", ":"))[1:-1].encode().replace(b"%", b"%%")
        comma = b"," if inner else b""
        member = json.dumps(self.member).encode()
        return b'id: %d\ndata: {"id":%d,' + inner + comma + member + b":%b}\n\n"


@dataclass(frozen=True, slots=True)
class Page:
    """Frames of the records beyond `after` up to `last`, encoded once for all who read them.

    A part is (source, frames); a gap's source is None: it belongs to every reader.
    """

    after: int
    last: int
    parts: tuple[tuple[str | None, bytes], ...]
    _joined: dict[frozenset[str], bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(len(frames) for _, frames in self.parts)

    def frames(self, sources: frozenset[str]) -> bytes:
        """Of these sources, or of all when there are none."""
        if sources not in self._joined:
            self._joined[sources] = b"".join(
                frames
                for source, frames in self.parts
                if source is None or not sources or source in sources
            )
        return self._joined[sources]


def page_of(chunks: Sequence[Chunk], wrapping: Wrapping, *, after: int, upto: int) -> Page:
    """Frame what was read of the range `after` < number <= `upto`; what is missing is a gap.

    `chunks` are in order and cut to the range; one without records was passed over (it is of a
    source that nobody asked for). Ends early, between two records, once the page holds 1 MiB.
    """
    template = wrapping.template()
    parts: list[tuple[str | None, bytes]] = []
    last, room = after, MOST_BYTES
    for chunk in chunks:
        if chunk.first > last + 1:
            parts.append((None, gap(last + 1, chunk.first - 1)))
        taken, frames = _framed(chunk, template, room)
        parts.append((chunk.source, frames))
        last, room = taken, room - len(frames)
        if room <= 0:
            return Page(after, last, tuple(parts))
    if last < upto:
        parts.append((None, gap(last + 1, upto)))
    return Page(after, upto, tuple(parts))


def _framed(chunk: Chunk, template: bytes, room: int) -> tuple[int, bytes]:
    """(number of the last record taken, frames): whole records, until `room` is used up."""
    frames = []
    for number, record in enumerate(chunk.records, chunk.first):
        frames.append(template % (number, number, record))
        room -= len(frames[-1])
        if room <= 0:
            return number, b"".join(frames)
    return chunk.last, b"".join(frames)


def gap(first: int, last: int) -> bytes:
    """Records that can no longer be had."""
    return b'event: gap\ndata: {"from":%d,"to":%d}\n\n' % (first, last)


def end(status: str, last_id: int) -> bytes:
    """After the last record of what has ended; nothing follows."""
    return b'event: end\ndata: {"status":%b,"lastId":%d}\n\n' % (
        json.dumps(status).encode(),
        last_id,
    )


def snapshot(version: int, body: bytes) -> bytes:
    """`body` is JSON on one line."""
    return b"id: %d\ndata: %b\n\n" % (version, body)
