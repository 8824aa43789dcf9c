"""From a unit's output records to log lines: decoded, secrets masked, cut.

The lines are a pure function of all records since the first. A process that adopts a unit reads its
output again from the start and drops the lines of known records, so that no line is lost or stored
twice, even if a line or a secret spans several records.

(reference: control-plane 11.2, 15.2)
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from kernel import clock
from kernel.agent_protocol import LogLine
from kernel.redaction import Redactor
from worker.domain.evaluation import LogMatches
from worker.domain.output_records import OutputRecord, Stream

LINE_LIMIT: Final = 16 * 1024  # bytes of UTF-8
LEVELS: Final[dict[Stream, str]] = {"stdout": "info", "stderr": "warn"}


class LogWatch:
    """Finds texts in output lines, including lines that span several records."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._open = set(texts)
        self._seen: set[str] = set()
        self._overlap = max(map(len, texts), default=1) - 1
        self._tails: dict[Stream, str] = {"stdout": "", "stderr": ""}

    @property
    def is_idle(self) -> bool:
        return not self._open

    def see(self, stream: Stream, text: str, *, ends: bool) -> None:
        if not self._open:
            return
        line = self._tails[stream] + text
        found = {wanted for wanted in self._open if wanted in line}
        self._seen |= found
        self._open -= found
        self._tails[stream] = "" if ends or not self._overlap else line[-self._overlap :]

    def has_seen(self, text: str) -> bool:
        return text in self._seen

    def matches(self, *, expected: Sequence[str], forbidden: Sequence[str]) -> LogMatches:
        return LogMatches(
            missing=tuple(text for text in expected if text not in self._seen),
            matched=tuple(text for text in forbidden if text in self._seen),
        )


class _OpenLine:
    """The unsent part of the current line of a stream."""

    def __init__(self) -> None:
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.rest = ""
        self.is_open = False


class LineCutter:
    """Turns records, fed in order, into the lines that each record completes."""

    def __init__(self, redactor: Redactor, watch: LogWatch) -> None:
        self.redactor = redactor
        self.watch = watch
        self._streams: dict[Stream, _OpenLine] = {"stdout": _OpenLine(), "stderr": _OpenLine()}
        self._stamp: str | None = None
        self._time = clock.now()  # of the last record, as its stamp says

    def feed(self, record: OutputRecord) -> list[LogLine]:
        ends = record.data.endswith(b"\n") or len(record.data) < LINE_LIMIT
        line = self._streams[record.stream]
        if ends and not line.is_open:
            return self._whole_line(record)
        text = line.decoder.decode(record.data, final=ends).removesuffix("\n")
        self.watch.see(record.stream, text, ends=ends)
        whole = line.rest + text
        masked, line.rest = (self.redactor.mask(whole), "") if ends else self.redactor.split(whole)
        line.is_open = not ends
        return list(_lines(masked, record, ends=ends))

    def _whole_line(self, record: OutputRecord) -> list[LogLine]:
        """Return the line of a record that holds all of it: the usual case, and the fast path."""
        text = record.data.decode("utf-8", "replace").removesuffix("\n")
        if not self.watch.is_idle:
            self.watch.see(record.stream, text, ends=True)
        if self.redactor:
            text = self.redactor.mask(text)
        if len(text) * 4 > LINE_LIMIT:
            return list(_lines(text, record, ends=True))
        if record.time is None or record.time != self._stamp:  # a burst has one, in milliseconds
            self._stamp, self._time = record.time, _time_of(record)
        return [LogLine(self._time, LEVELS[record.stream], "output", text)]

    def finish(self) -> list[LogLine]:
        """Return the lines that were still open when the output ended."""
        lines = []
        for stream, line in self._streams.items():
            if line.is_open:
                text = self.redactor.mask(line.rest + line.decoder.decode(b"", final=True))
                lines.append(LogLine(clock.now(), LEVELS[stream], "output", text))
                line.rest, line.is_open = "", False
        return lines


def _lines(text: str, record: OutputRecord, *, ends: bool) -> Iterator[LogLine]:
    level = LEVELS[record.stream]
    time = _time_of(record)
    pieces = cut(text)
    for number, piece in enumerate(pieces, start=1):
        continued = number < len(pieces) or not ends
        if piece or not continued:
            yield LogLine(time, level, "output", piece, continued)


def _time_of(record: OutputRecord) -> datetime:
    """Return the runtime's time stamp; the current time if it is missing or invalid."""
    try:
        return datetime.fromisoformat(record.time) if record.time else clock.now()
    except ValueError:
        return clock.now()


def cut(text: str, limit: int = LINE_LIMIT) -> list[str]:
    """Split a text into one or more pieces of at most `limit` bytes of UTF-8."""
    encoded = text.encode("utf-8", "surrogatepass")
    pieces, start = [], 0
    while len(encoded) - start > limit:
        end = start + limit
        while encoded[end] & 0xC0 == 0x80:  # noqa: PLR2004 - inside a character
            end -= 1
        pieces.append(encoded[start:end].decode("utf-8", "replace"))
        start = end
    return [*pieces, encoded[start:].decode("utf-8", "replace")]
