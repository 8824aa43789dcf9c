"""The log of a container, line by line in its order, also over broken streams.

Kubernetes sends one stream for stdout and stderr: every record counts as stdout. A stream breaks
when the API server or the kubelet restarts, or when the log is rotated. The reader then asks for
the log since the second of the last line and drops as many lines as it has from there.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from kernel.clock import rfc3339
from worker.domain.masked_output import LINE_LIMIT
from worker.domain.output_records import OutputRecord

_SECOND: Final = len("2026-01-02T03:04:05")
_MILLISECOND: Final = len("2026-01-02T03:04:05.123")
_STAMP_LIMIT: Final = 64


class PodLogReader:
    """Turns the bytes of a log with times into records, numbered from 1; drops the first `after`.

    A line longer than 16 KiB is several records. Lines after a restart of the stream are told
    from those known by their number since that second; if the log was rotated meanwhile, which
    its first line tells, by their times.
    """

    def __init__(self, after: int = 0) -> None:
        self._after = after
        self._position = 0
        self._buffer = b""
        self._stamp = b""  # of the line that is read; empty between two lines
        self._pieces = 0  # records of that line so far
        self._known = 0  # of these, known from before a restart; -1: all of them
        self._second = b""  # the latest second of a line
        self._first = b""  # the stamp of its first line
        self._count = 0  # the lines that began in it
        self._last = b""  # the latest stamp
        self._last_pieces = 0  # records of the last new line
        self._last_is_whole = True
        self._expected = 0  # lines still to drop after a restart
        self._has_restarted = False  # and no line was read since
        self._time_of = ("", "")

    @property
    def position(self) -> int:
        """The number of records so far, also of those before `after`."""
        return self._position

    def restart(self) -> str:
        """Begin a new stream; return the time since which to ask for the log, empty at first."""
        if not self._last_is_whole and not self._last_pieces:
            self._count = max(0, self._count - 1)  # only its time was read
            self._last_is_whole = True
        self._buffer = self._stamp = b""
        self._expected, self._has_restarted = self._count, True
        if not self._second:
            return ""
        return f"{self._second.decode()}{_zone(self._last)}"

    def feed(self, data: bytes) -> list[OutputRecord]:
        self._buffer += data
        records: list[OutputRecord] = []
        while self._buffer:
            if not self._stamp and not self._begin_line():
                break
            end = self._buffer.find(b"\n", 0, LINE_LIMIT)
            if end < 0 and len(self._buffer) < LINE_LIMIT:
                break
            size = end + 1 if end >= 0 else LINE_LIMIT
            piece, self._buffer = self._buffer[:size], self._buffer[size:]
            self._add(piece, records)
            if end >= 0:
                self._stamp = b""
        return records

    def finish(self) -> list[OutputRecord]:
        """Return what is left of a last line without its end."""
        records: list[OutputRecord] = []
        if self._stamp and self._buffer:
            self._add(self._buffer, records)
        self._buffer = self._stamp = b""
        return records

    def _begin_line(self) -> bool:
        """Read the time of the next line; return False if it is not there yet."""
        end = self._buffer.find(b" ")
        if end < 0:
            if len(self._buffer) < _STAMP_LIMIT:
                return False
            end = 0  # no time: the line is taken as it is
        stamp = self._buffer[:end] or self._last or b"?"
        self._buffer = self._buffer[end + 1 :] if end else self._buffer
        self._stamp, self._pieces = stamp, 0
        self._known = self._known_pieces(stamp)
        if not self._known:
            self._count_line(stamp)
        return True

    def _known_pieces(self, stamp: bytes) -> int:
        """Return how many records of this line are known: 0 for a new line, -1 for all."""
        if self._has_restarted:
            self._has_restarted = False
            if self._expected and stamp != self._first:  # the log was rotated
                self._expected = -1
        of_last = -1 if self._last_is_whole else self._last_pieces
        if self._expected < 0:
            if stamp <= self._last:
                return of_last if stamp == self._last else -1
            self._expected = 0
        if not self._expected:
            return 0
        self._expected -= 1
        return -1 if self._expected else of_last

    def _count_line(self, stamp: bytes) -> None:
        second = stamp[:_SECOND]
        if second > self._second:
            self._second, self._first, self._count = second, stamp, 0
        if second == self._second:
            self._count += 1
        self._last = max(self._last, stamp)
        self._last_pieces, self._last_is_whole = 0, False

    def _add(self, piece: bytes, records: list[OutputRecord]) -> None:
        self._pieces += 1
        if self._known < 0 or self._pieces <= self._known:
            return
        self._last_pieces, self._last_is_whole = self._pieces, piece.endswith(b"\n")
        self._position += 1
        if self._position > self._after:
            records.append(OutputRecord(self._position, "stdout", piece, self._time()))

    def _time(self) -> str:
        stamp = self._stamp.decode("ascii", "replace")
        key = stamp[:_MILLISECOND]
        if key != self._time_of[0]:  # a burst has one, in milliseconds
            self._time_of = key, _utc(stamp)
        return self._time_of[1]


def _zone(stamp: bytes) -> str:
    """Return the zone of a stamp: `Z`, or an offset."""
    text = stamp.decode("ascii", "replace")
    return "Z" if text.endswith("Z") else text[-len("+00:00") :]


def _utc(stamp: str) -> str:
    """Return the time in UTC and milliseconds; the stamp itself if it cannot be read."""
    if stamp.endswith("Z") and len(stamp) > _MILLISECOND:
        return f"{stamp[:_MILLISECOND]}Z"
    try:
        return rfc3339(datetime.fromisoformat(stamp).astimezone(UTC))
    except ValueError:
        return stamp
