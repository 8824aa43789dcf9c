"""Server-sent events (reference: control-plane 12). Records are JSON bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from apps.streams.domain.chunks import Chunk
from kernel.errors import FieldError, InvalidInput

CONNECTED: Final = b": connected\n\n"
PING: Final = b": ping\n\n"
MOST_RECORDS: Final = 1000  # that a follower may be behind before it reads from the store
MOST_BYTES: Final = 2**20
_WHOLE = re.compile(r"[0-9]+\Z")
_MOST_DIGITS: Final = 18
_BEYOND_ANY: Final = 10**_MOST_DIGITS  # means: after the last record


@dataclass(frozen=True, slots=True)
class Wrapping:
    """The JSON around a record in `data`: `{"id":7,<fields>,"<member>":<record>}`."""

    member: str
    fields: Mapping[str, Any]

    def template(self) -> bytes:
        """Return a format for `%` with the number, the number again and the record."""
        inner = json.dumps(self.fields, separators=(",", ":"))[1:-1].encode().replace(b"%", b"%%")
        comma = b"," if inner else b""
        member = json.dumps(self.member).encode()
        return b'id: %d\ndata: {"id":%d,' + inner + comma + member + b":%b}\n\n"


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Frames of the records with `after` < number <= `last`, encoded once for all followers.

    A part is (source, frames). The source of a gap is None: it is sent to every follower.
    """

    after: int
    last: int
    parts: tuple[tuple[str | None, bytes], ...]
    _joined: dict[frozenset[str], bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(len(frames) for _, frames in self.parts)

    def frames(self, sources: frozenset[str]) -> bytes:
        """Return the frames of these sources, or of all sources when the set is empty."""
        if sources not in self._joined:
            self._joined[sources] = b"".join(
                frames
                for source, frames in self.parts
                if source is None or not sources or source in sources
            )
        return self._joined[sources]


def page_of(chunks: Sequence[Chunk], wrapping: Wrapping, *, after: int, upto: int) -> RecordPage:
    """Encode the records of the range `after` < number <= `upto`; missing ones become gaps.

    `chunks` are in order and cut to the range. A chunk without records has an unrequested source
    and leaves no gap. The page ends early, between two records, once it holds 1 MiB.
    """
    template = wrapping.template()
    parts: list[tuple[str | None, bytes]] = []
    last, room = after, MOST_BYTES
    for chunk in chunks:
        if chunk.first > last + 1:
            parts.append((None, gap(last + 1, chunk.first - 1)))
        taken, frames = _encode(chunk, template, room)
        parts.append((chunk.source, frames))
        last, room = taken, room - len(frames)
        if room <= 0:
            return RecordPage(after, last, tuple(parts))
    if last < upto:
        parts.append((None, gap(last + 1, upto)))
    return RecordPage(after, upto, tuple(parts))


def _encode(chunk: Chunk, template: bytes, room: int) -> tuple[int, bytes]:
    """Return the number of the last encoded record and the frames, until `room` is used up."""
    frames = []
    for number, record in enumerate(chunk.records, chunk.first):
        frames.append(template % (number, number, record))
        room -= len(frames[-1])
        if room <= 0:
            return number, b"".join(frames)
    return chunk.last, b"".join(frames)


def gap(first: int, last: int) -> bytes:
    """Return the frame for records that no longer exist."""
    return b'event: gap\ndata: {"from":%d,"to":%d}\n\n' % (first, last)


def end(status: str, last_id: int) -> bytes:
    """Return the last frame of a closed topic."""
    return b'event: end\ndata: {"status":%b,"lastId":%d}\n\n' % (
        json.dumps(status).encode(),
        last_id,
    )


def stream_switch(number: int) -> bytes:
    """Return the frame of a shared stream that says from which stream the next frames are."""
    return b"event: stream\ndata: %d\n\n" % number


def stream_over() -> bytes:
    """Return the frame of a shared stream after the last frame of one of its streams."""
    return b"event: over\ndata: {}\n\n"


def refusal_frame(problem: bytes) -> bytes:
    """Return the frame of a shared stream for a stream that is refused; `problem` is JSON."""
    return b"event: refused\ndata: %b\n\n" % problem


def snapshot(version: int, body: bytes, *, numbered: bool = False) -> bytes:
    """Return the frame of a snapshot; `body` is JSON on one line.

    `numbered`: the body is an object that begins with its `id`.
    """
    if numbered:
        body = b'{"id":%d,%b' % (version, body[1:])
    return b"id: %d\ndata: %b\n\n" % (version, body)


def resume_after(*, since: str | None, last_event_id: str | None) -> int:
    """Return the larger of the query's `since` and the header `Last-Event-ID`, 0 without both.

    A header that is not a number is ignored; raise InvalidInput (`invalid_parameter`) for such a
    `since`.
    """
    if since is not None and not _WHOLE.match(since):
        error = FieldError(pointer="/since", code="invalid_value", detail="must be an integer >= 0")
        raise InvalidInput(
            "since must be an integer of at least 0", code="invalid_parameter", errors=[error]
        )
    return max(_number(since), _number(last_event_id))


def _number(text: str | None) -> int:
    if text is None or not _WHOLE.match(text):
        return 0
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) <= _MOST_DIGITS else _BEYOND_ANY
