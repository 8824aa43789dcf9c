"""The stored log of a run: downloaded, and searched in linear time whatever the pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Final, Literal, Protocol, TypedDict

import msgspec
import re2

from apps.executions.domain.events import LineRecord, logs_topic
from apps.streams import api as streams
from apps.streams.api import Chunk
from kernel import clock
from kernel.wire_types import Ordinal

PATTERN_MAX_CHARACTERS: Final = 1_000
_PATTERN_MAX_BYTES: Final = 8 * 2**20  # of memory, once compiled
SEARCHED_RECORDS: Final = 200_000  # in one request, or
SEARCHED_BYTES: Final = 64 * 2**20
FOUND_MAX_CHARACTERS: Final = 1_000  # of the text that a pattern found in a line
_LOOKED_AT: Final = 500  # of one step, for its last words
_OUT_OF_ORDER: Final = 500  # lines that arrive between two lines of one time
Form = Literal["txt", "ndjson"]


_line = msgspec.json.Decoder(LineRecord)


class FoundText(Protocol):
    def group(self) -> str: ...


class LinePattern(Protocol):
    def search(self, text: str) -> FoundText | None: ...


class SearchPatternInvalid(ValueError):
    """The text is not a valid RE2 pattern; the message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFilter:
    """A pattern for the text, and the sources, kinds and levels; empty sets mean any."""

    pattern: LinePattern
    sources: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    levels: frozenset[str] = frozenset()

    def find(self, line: LineRecord) -> str | None:
        """Return the first text of the line that the pattern finds, or None if none matches.

        The text is cut to `FOUND_MAX_CHARACTERS`.
        """
        if (
            (self.sources and line.source not in self.sources)
            or (self.kinds and line.kind not in self.kinds)
            or (self.levels and line.level not in self.levels)
        ):
            return None
        found = self.pattern.search(line.text)
        return None if found is None else found.group()[:FOUND_MAX_CHARACTERS]


def compile_pattern(query: str, *, regex: bool, case: bool) -> LinePattern:
    """Return the pattern, literal unless `regex`, case-sensitive with `case`.

    Raise SearchPatternInvalid for what RE2 refuses: back references, look-around, huge repetitions.
    """
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MAX_BYTES
    options.case_sensitive = case
    options.literal = not regex
    try:
        pattern: LinePattern = re2.compile(query, options=options)
    except re2.error as error:
        reason = error.args[0] if error.args else "not understood"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise SearchPatternInvalid(text) from None
    return pattern


@dataclass(slots=True)
class SearchState:
    """The progress of a search.

    `after` is the last record searched for matches; `total` covers the first `counted` records.
    """

    after: int = 0
    counted: int = 0
    total: int = 0

    def as_key(self) -> tuple[int, int, int]:
        """Return the positional arguments of an equal state."""
        return self.after, self.counted, self.total


class LogMatch(TypedDict):
    """A line that matches, as on the wire; `id` is its number in the log, `found` the text."""

    id: Ordinal
    line: Annotated[Mapping[str, object], LineRecord]
    found: str


@dataclass(slots=True, kw_only=True)
class SearchPage:
    """`matches` are in order; `rest` is None at the end of the log.

    `sources` counts by source the matches that this request added to `total`.
    """

    matches: list[LogMatch] = field(default_factory=list)
    total: int = 0
    sources: dict[str, int] = field(default_factory=dict)
    rest: SearchState | None = None


def last_lines(run_id: str, source: str, *, count: int) -> list[tuple[int, LineRecord]]:
    """Return (number, line) of the last lines that a step wrote to stderr, oldest first.

    Without any among its last `_LOOKED_AT` lines, return the last lines that it wrote.
    """
    written = [
        (number, line)
        for chunk in streams.tail(logs_topic(run_id), limit=_LOOKED_AT, source=source)
        for number, line in enumerate(map(_line.decode, chunk.records), start=chunk.first)
        if line.kind == "output"
    ]
    errors = [each for each in written if each[1].level in ("warn", "error")]
    return (errors or written)[-count:]


class LinePlace(TypedDict, total=False):
    """The number of a line in the log, as on the wire; absent if there is no such line."""

    id: int


def first_line_at(run_id: str, instant: datetime) -> LinePlace:
    """Return the place of the first line written at `instant` or later.

    Lines are stored as they arrive, so their times are in order up to the delay of a supervisor:
    the place is found by halves, and the first line near it is looked for.
    """
    topic, wanted = logs_topic(run_id), clock.rfc3339(instant)
    low, high = 0, streams.last_ids([topic]).get(topic, 0)
    while low < high:
        middle = (low + high) // 2
        is_earlier = any(line.time < wanted for _, line in _lines_after(topic, middle, 1))
        low, high = (middle + 1, high) if is_earlier else (low, middle)
    near = _lines_after(topic, max(0, low - _OUT_OF_ORDER), 2 * _OUT_OF_ORDER)
    number = next((number for number, line in near if line.time >= wanted), None)
    return {} if number is None else {"id": number}


def _lines_after(topic: str, after: int, limit: int) -> Iterator[tuple[int, LineRecord]]:
    for chunk in streams.read(topic, after=after, limit=limit):
        yield from enumerate(map(_line.decode, chunk.records), start=chunk.first)


def log_pages(run_id: str, form: Form, *, source: str | None = None) -> Iterator[bytes]:
    """Yield the log as it is stored now, a chunk at a time.

    `txt` has lines `MM:SS [source] text`, `ndjson` the records of the log stream.
    """
    topic = logs_topic(run_id)
    last = streams.last_ids([topic]).get(topic, 0)
    for chunk in streams.iterate(topic, source=source):
        if chunk.first > last:
            return
        kept = chunk.cut(after=0, upto=last)
        if form == "txt":
            lines = map(_line.decode, kept.records)
            texts = [f"{line.timestamp} [{line.source}] {line.text}\n" for line in lines]
            yield "".join(texts).encode()
        else:
            yield b"".join(
                b'{"id":%d,"executionId":"%b","line":%b}\n' % (number, run_id.encode(), record)
                for number, record in enumerate(kept.records, start=kept.first)
            )


def search_log(run_id: str, wanted: LineFilter, state: SearchState, *, limit: int) -> SearchPage:
    """Return at most `limit` matches after `state`, and the number of matches so far.

    One call reads up to `SEARCHED_RECORDS` records or `SEARCHED_BYTES`, so that a page with a rest
    may be short or empty. `total` is complete once a page has no rest.
    """
    topic = logs_topic(run_id)
    last = streams.last_ids([topic]).get(topic, 0)
    source = next(iter(wanted.sources)) if len(wanted.sources) == 1 else None
    scan = _LogScan(wanted, state, limit)
    for chunk in streams.iterate(topic, after=state.after, source=source):
        scan.take(chunk)
        if scan.exhausted or (scan.is_full and scan.counted >= last):
            return scan.page(ended=False)
    return scan.page(ended=True)


class _LogScan:
    """Collects matches and counts from chunks."""

    def __init__(self, wanted: LineFilter, state: SearchState, limit: int) -> None:
        self._wanted = wanted
        self._limit = limit
        self._start = state.after
        self._last = state.after
        self.counted = state.counted
        self._total = state.total
        self._records = 0
        self._bytes = 0
        self._sources: Counter[str] = Counter()
        self._found: list[LogMatch] = []  # one more than `limit` at most

    @property
    def is_full(self) -> bool:
        return len(self._found) > self._limit

    @property
    def exhausted(self) -> bool:
        return self._records >= SEARCHED_RECORDS or self._bytes >= SEARCHED_BYTES

    def take(self, chunk: Chunk) -> None:
        for number, record in enumerate(chunk.records, start=chunk.first):
            if number > self._start:
                self._match(number, record)
        self._last = chunk.last
        self.counted = max(self.counted, chunk.last)
        self._records += len(chunk.records)
        self._bytes += sum(map(len, chunk.records))

    def _match(self, number: int, record: bytes) -> None:
        line = _line.decode(record)
        found = self._wanted.find(line)
        if found is None:
            return
        if number > self.counted:
            self._total += 1
            self._sources[line.source] += 1
        if not self.is_full:
            self._found.append({"id": number, "line": msgspec.to_builtins(line), "found": found})

    def page(self, *, ended: bool) -> SearchPage:
        matches = self._found[: self._limit]
        last = matches[-1]["id"] if self.is_full else self._last
        rest = SearchState(after=last, counted=self.counted, total=self._total)
        more = self.is_full or not ended
        return SearchPage(
            matches=matches,
            total=self._total,
            sources=dict(self._sources),
            rest=rest if more else None,
        )
