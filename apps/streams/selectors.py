"""Reads of topics and their records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from django.db.models import QuerySet

from apps.streams.domain.chunks import Chunk, unpack
from apps.streams.models import StoredChunk, Topic

_Row = tuple[int, int, str, bool, bytes | memoryview]
_MOST_CHUNKS: Final = 128  # per query


def last_ids(topics: Iterable[str]) -> dict[str, int]:
    """Return the number of the last record by topic, 0 for an empty one; omit missing topics."""
    return dict(Topic.objects.filter(name__in=list(topics)).values_list("name", "last_id"))


def read(topic: str, *, after: int, limit: int, source: str | None = None) -> list[Chunk]:
    """Return at most `limit` (> 0) records after number `after`, oldest first, as chunks.

    The first and last chunk are cut to fit. With `source`, only its records are returned.
    """
    chunks: list[Chunk] = []
    for chunk in iterate(topic, after=after, source=source):
        chunks.append(chunk.cut(after=after, upto=max(after, chunk.first - 1) + limit))
        limit -= len(chunks[-1].records)
        if limit <= 0:
            break
    return chunks


def iterate(topic: str, *, after: int = 0, source: str | None = None) -> Iterator[Chunk]:
    """Yield every chunk with a record after `after`, whole, oldest first, in constant memory."""
    rows = _rows(topic, source).order_by("last")
    for many in _page_sizes():
        page = list(rows.filter(last__gt=after)[:many])
        yield from (_as_chunk(topic, row) for row in page)
        if len(page) < many:
            return
        after = page[-1][1]


def ends(topics: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Return (number of the last record, closing status or "") by topic; omit missing topics."""
    rows = Topic.objects.filter(name__in=list(topics)).values_list("name", "last_id", "closed")
    return {name: (last_id, closed) for name, last_id, closed in rows}


def between(topic: str, *, after: int, upto: int) -> list[Chunk]:
    """Return the chunks of the range `after` < number <= `upto`, cut to it."""
    rows = _rows(topic, None).filter(last__gt=after, first__lte=upto).order_by("last")
    return [_as_chunk(topic, row).cut(after=after, upto=upto) for row in rows]


def chunk_spans(topic: str, *, after: int, upto: int, limit: int) -> list[tuple[int, int, str]]:
    """Return (first, last, source) of at most `limit` chunks of the range, in order."""
    rows = StoredChunk.objects.filter(topic=topic, last__gt=after, first__lte=upto)
    return list(rows.order_by("last").values_list("first", "last", "source")[:limit])


def chunks_at(topic: str, lasts: Sequence[int]) -> dict[int, Chunk]:
    """Return whole chunks by their last number."""
    rows = _rows(topic, None).filter(last__in=lasts)
    return {row[1]: _as_chunk(topic, row) for row in rows}


def tail(topic: str, *, limit: int, source: str | None = None) -> list[Chunk]:
    """Return the last `limit` (> 0) records, oldest first, as chunks; the first is cut to fit."""
    chunks: list[Chunk] = []
    for chunk in _backwards(topic, source):
        chunks.insert(0, chunk.cut(after=chunk.last - limit, upto=chunk.last))
        limit -= len(chunks[0].records)
        if limit <= 0:
            break
    return chunks


def _backwards(topic: str, source: str | None) -> Iterator[Chunk]:
    rows = _rows(topic, source).order_by("-last")
    for many in _page_sizes():
        page = list(rows[:many])
        yield from (_as_chunk(topic, row) for row in page)
        if len(page) < many:
            return
        rows = _rows(topic, source).filter(last__lt=page[-1][1]).order_by("-last")


def _page_sizes() -> Iterator[int]:
    """Yield growing sizes: a chunk may hold a thousand lines, and most readers want few."""
    many = 8
    while True:
        yield many
        many = min(_MOST_CHUNKS, many * 2)


def _rows(topic: str, source: str | None) -> QuerySet[StoredChunk, _Row]:
    narrowed = {} if source is None else {"source": source}
    return StoredChunk.objects.filter(topic=topic, **narrowed).values_list(
        "first", "last", "source", "compressed", "body"
    )


def _as_chunk(topic: str, row: _Row) -> Chunk:
    first, last, source, compressed, body = row
    return Chunk(topic, first, last, source, unpack(body, compressed=compressed))
