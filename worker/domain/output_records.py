"""Records of a unit's output, and the frames that hold them, as the Docker Logs API sends them.

A frame: `stream (1 byte: 1 stdout, 2 stderr), 0, 0, 0, length (4 bytes, big endian)`, then an RFC
3339 time, a space, and the record.
"""

from __future__ import annotations

import struct
from typing import Final, Literal, NamedTuple

Stream = Literal["stdout", "stderr"]
HEADER: Final = struct.Struct(">BxxxI")
_STREAMS: Final[dict[int, Stream]] = {0: "stdout", 1: "stdout", 2: "stderr"}
_MILLISECONDS: Final = len("2026-01-02T03:04:05.123")


class OutputRecord(NamedTuple):
    """A line with its newline, 16 KiB of a longer one, or the output's end without a newline.

    `position`: the number of records up to and with this one. `time`: RFC 3339, milliseconds.
    """

    position: int
    stream: Stream
    data: bytes
    time: str | None = None


class FrameReader:
    """Turns bytes into records, numbered from 1; drops the first `after`."""

    def __init__(self, after: int) -> None:
        self._after = after
        self._stamp = b""
        self._time = ""
        self._position = 0
        self._buffer = b""
        self.last = b""  # the frame that came last, also when it was dropped

    def feed(self, data: bytes) -> list[OutputRecord]:
        data, start, records, last = self._buffer + data, 0, [], (0, 0)
        while len(data) - start >= HEADER.size:
            stream, length = HEADER.unpack_from(data, start)
            end = start + HEADER.size + length
            if end > len(data):
                break
            self._position += 1
            last = (start, end)
            if self._position > self._after:
                records.append(self._record(stream, data[start + HEADER.size : end]))
            start = end
        if start:
            self.last = data[last[0] : last[1]]
        self._buffer = data[start:]
        return records

    def _record(self, stream: int, content: bytes) -> OutputRecord:
        stamp = content[:_MILLISECONDS]
        if stamp != self._stamp:  # a burst has one, in milliseconds
            self._stamp, self._time = stamp, f"{stamp.decode('ascii')}Z"
        data = content[content.index(b" ") + 1 :]
        return OutputRecord(self._position, _STREAMS[stream], data, self._time)
