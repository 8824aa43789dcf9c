"""A run's stored log: whole, as text, and searched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from apps.executions.domain.log_search import LineFilter
from apps.executions.domain.topics import logs_topic
from apps.streams import api as streams
from apps.streams.api import Chunk

SEARCHED_RECORDS: Final = 200_000  # in one request, or
SEARCHED_BYTES: Final = 64 * 2**20
Form = Literal["txt", "ndjson"]


class _Line(msgspec.Struct):
    timestamp: str
    source: str
    text: str


_line = msgspec.json.Decoder(_Line)
_document = msgspec.json.Decoder()


@dataclass(slots=True)
class SearchState:
    """How far a search has come.

    `after`: the last record looked at for matches; the first `counted` records are in `total`.
    """

    after: int = 0
    counted: int = 0
    total: int = 0

    def as_key(self) -> tuple[int, int, int]:
        """What the positional arguments of a new one are."""
        return self.after, self.counted, self.total


@dataclass(slots=True, kw_only=True)
class SearchPage:
    """`matches`: `{id, line}` in order; `rest`: where to go on, None at the end of the log."""

    matches: list[dict[str, Any]] = field(default_factory=list)
    total: int = 0
    rest: SearchState | None = None


def log_pages(run_id: str, form: Form, *, source: str | None = None) -> Iterator[bytes]:
    """The log as it is stored now, a chunk at a time.

    As lines `MM:SS [source] text`, or the records of the log stream as lines of JSON.
    """
    topic = logs_topic(run_id)
    last = streams.last_ids([topic]).get(topic, 0)
    for chunk in streams.iterate(topic, source=source):
        if chunk.first > last:
            return
        kept = chunk.cut(after=0, upto=last)
        yield _as_text(kept) if form == "txt" else _as_records(kept, run_id)


def search_log(run_id: str, wanted: LineFilter, state: SearchState, *, limit: int) -> SearchPage:
    """At most `limit` matches after `state`, and the number of matches in what was searched so far.

    One call looks at `SEARCHED_RECORDS` records or `SEARCHED_BYTES`, whichever is less: a page may
    then be short, or empty, with a rest; `total` is complete once a page has no rest.
    """
    topic = logs_topic(run_id)
    last = streams.last_ids([topic]).get(topic, 0)
    source = next(iter(wanted.sources)) if len(wanted.sources) == 1 else None
    scan = _Scan(wanted, state, limit)
    for chunk in streams.iterate(topic, after=state.after, source=source):
        scan.take(chunk)
        if scan.exhausted or (scan.is_full and scan.counted >= last):
            return scan.page(ended=False)
    return scan.page(ended=True)


class _Scan:
    """Chunks go in, matches and counts come out."""

    def __init__(self, wanted: LineFilter, state: SearchState, limit: int) -> None:
        self._wanted = wanted
        self._limit = limit
        self._start = state.after
        self._place = state.after
        self.counted = state.counted
        self._total = state.total
        self._records = 0
        self._bytes = 0
        self._found: list[dict[str, Any]] = []  # one more than `limit` at most

    @property
    def is_full(self) -> bool:
        return len(self._found) > self._limit

    @property
    def exhausted(self) -> bool:
        return self._records >= SEARCHED_RECORDS or self._bytes >= SEARCHED_BYTES

    def take(self, chunk: Chunk) -> None:
        for number, record in enumerate(chunk.records, start=chunk.first):
            if number > self._start:
                self._look_at(number, record)
        self._place = chunk.last
        self.counted = max(self.counted, chunk.last)
        self._records += len(chunk.records)
        self._bytes += sum(map(len, chunk.records))

    def _look_at(self, number: int, record: bytes) -> None:
        line = _document.decode(record)
        if not self._wanted.matches(line):
            return
        self._total += number > self.counted
        if not self.is_full:
            self._found.append({"id": number, "line": line})

    def page(self, *, ended: bool) -> SearchPage:
        matches = self._found[: self._limit]
        place = matches[-1]["id"] if self.is_full else self._place
        rest = SearchState(after=place, counted=self.counted, total=self._total)
        more = self.is_full or not ended
        return SearchPage(matches=matches, total=self._total, rest=rest if more else None)


def _as_text(chunk: Chunk) -> bytes:
    lines = map(_line.decode, chunk.records)
    return "".join(f"{line.timestamp} [{line.source}] {line.text}\n" for line in lines).encode()


def _as_records(chunk: Chunk, run_id: str) -> bytes:
    return b"".join(
        b'{"id":%d,"executionId":"%b","line":%b}\n' % (number, run_id.encode(), record)
        for number, record in enumerate(chunk.records, start=chunk.first)
    )
