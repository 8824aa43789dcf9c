"""The log of a container, line by line in its order, also over broken streams.

Kubernetes sends one stream for stdout and stderr: every record counts as stdout. A stream breaks
when the API server or the kubelet restarts, or when the log is rotated. The reader then asks for
the log since the second before the last line and drops as many lines as it has from there: the
lines of the two streams are a little out of order, and Kubernetes leaves out each that is older.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from kernel.clock import rfc3339
from worker.domain.masked_output import LINE_LIMIT
from worker.domain.output_records import OutputRecord

_SECOND: Final = len("2026-01-02T03:04:05")
_MILLISECOND: Final = len("2026-01-02T03:04:05.123")
_STAMP_LIMIT: Final = 64
_STAMP: Final = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*\Z")
_SENTENCE_LIMIT: Final = 300
_SECONDS: Final = 4  # whose lines are counted: two streams are out of order by less


T = TypeVar("T")


async def take_until(over: asyncio.Task[Any], parts: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """Yield the parts of a stream until it ends, or until `over` is done."""
    async with aclosing(parts):
        while True:
            coming = asyncio.ensure_future(anext(parts, None))
            try:
                await asyncio.wait({coming, over}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not coming.done():
                    coming.cancel()
                    await asyncio.gather(coming, return_exceptions=True)
            part = None if coming.cancelled() else coming.result()
            if part is None:
                return
            yield part


class NotALog(Exception):
    """The kubelet wrote a sentence of its own into a log that it cannot read; the start of it."""


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
        self._counts: dict[bytes, int] = {}  # the latest seconds → the lines that began in them
        self._firsts: dict[bytes, bytes] = {}  # second → the stamp of the first line since then
        self._first = b""  # of the lines that were asked for
        self._last_second = b""  # of the last new line; empty if it is not counted
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
        self._buffer = self._stamp = b""
        self._has_restarted = True
        if not self._counts:
            return ""
        since = _second_before(max(self._counts))
        if self._last_second and not self._last_is_whole:
            since = min(since, self._last_second)
        known = [each for each in self._counts if each >= since]
        self._expected = sum(self._counts[each] for each in known)
        self._first = self._firsts[min(known)]
        return f"{since.decode()}{_zone(self._last)}"

    def feed(self, data: bytes) -> list[OutputRecord]:
        """Return the records that are complete; raise NotALog if there are none and never will."""
        self._buffer += data
        records: list[OutputRecord] = []
        while self._buffer:
            try:
                if not self._stamp and not self._begin_line():
                    break
            except NotALog:
                if records:
                    break  # the next bytes, or the next stream, tell
                raise
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
        """Read the time of the next line; return False if it is not there yet.

        Raises NotALog for a line without one.
        """
        end = self._buffer.find(b" ", 0, _STAMP_LIMIT)
        if end < 0 and len(self._buffer) < _STAMP_LIMIT:
            return False
        stamp = self._buffer[: max(end, 0)]
        if not _STAMP.match(stamp):
            raise NotALog(self._buffer[:_SENTENCE_LIMIT].decode(errors="replace").strip())
        self._buffer = self._buffer[end + 1 :]
        self._stamp, self._pieces = stamp, 0
        known = self._known_pieces(stamp)
        if known is None:
            self._count_line(stamp)
        self._known = known or 0
        return True

    def _known_pieces(self, stamp: bytes) -> int | None:
        """Return how many records of this line are known, -1 for all; None for a new line."""
        if self._has_restarted:
            self._has_restarted = False
            if self._expected and stamp != self._first:  # the log was rotated
                self._expected = -1
        is_whole = self._last_is_whole or not self._last_second
        of_last = -1 if is_whole else self._last_pieces
        if self._expected < 0:
            if stamp <= self._last:
                return of_last if stamp == self._last else -1
            self._expected = 0
        if not self._expected:
            return None
        self._expected -= 1
        return -1 if self._expected else of_last

    def _count_line(self, stamp: bytes) -> None:
        second = stamp[:_SECOND]
        if second not in self._counts:
            later = min((each for each in self._counts if each > second), default=b"")
            self._counts[second], self._firsts[second] = 0, self._firsts.get(later, stamp)
        self._counts[second] += 1
        self._last_second = second
        if len(self._counts) > _SECONDS:
            oldest = min(self._counts)
            del self._counts[oldest], self._firsts[oldest]
            self._last_second = second if second != oldest else b""
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


def _second_before(second: bytes) -> bytes:
    """Return the second before, in which a line of the other stream may still come."""
    try:
        before = datetime.fromisoformat(second.decode("ascii", "replace")) - timedelta(seconds=1)
    except (ValueError, OverflowError):
        return second
    return before.isoformat(timespec="seconds").encode()


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
