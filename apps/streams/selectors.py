"""Reading streams back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from django.db.models import QuerySet

from apps.streams.domain.chunks import Chunk, unpacked
from apps.streams.models import StoredChunk, Topic

_Row = tuple[int, int, str, bool, bytes | memoryview]
_MOST_CHUNKS: Final = 128  # a query


def last_ids(topics: Iterable[str]) -> dict[str, int]:
    """Number of the last record by topic, 0 when empty; topics that do not exist are left out."""
    return dict(Topic.objects.filter(name__in=list(topics)).values_list("name", "last_id"))


def read(topic: str, *, after: int, limit: int, source: str | None = None) -> list[Chunk]:
    """At most `limit` (> 0) records with numbers greater than `after`, oldest first, as chunks.

    The first and last chunk are cut to fit. With `source` only that source's records.
    """
    chunks: list[Chunk] = []
    for chunk in iterate(topic, after=after, source=source):
        chunks.append(chunk.cut(after=after, upto=max(after, chunk.first - 1) + limit))
        limit -= len(chunks[-1].records)
        if limit <= 0:
            break
    return chunks


def iterate(topic: str, *, after: int = 0, source: str | None = None) -> Iterator[Chunk]:
    """Every chunk that holds a record beyond `after`, whole, oldest first; constant memory."""
    rows = _rows(topic, source).order_by("last")
    for many in _page_sizes():
        page = list(rows.filter(last__gt=after)[:many])
        yield from (_as_chunk(topic, row) for row in page)
        if len(page) < many:
            return
        after = page[-1][1]


def ends(topics: Iterable[str]) -> dict[str, tuple[int, str]]:
    """(number of the last record, closing status or "") by topic, for those that exist."""
    rows = Topic.objects.filter(name__in=list(topics)).values_list("name", "last_id", "closed")
    return {name: (last_id, closed) for name, last_id, closed in rows}


def between(topic: str, *, after: int, upto: int) -> list[Chunk]:
    """The chunks that touch `after` < number <= `upto`, cut to it."""
    rows = _rows(topic, None).filter(last__gt=after, first__lte=upto).order_by("last")
    return [_as_chunk(topic, row).cut(after=after, upto=upto) for row in rows]


def places(topic: str, *, after: int, upto: int, limit: int) -> list[tuple[int, int, str]]:
    """(first, last, source) of the chunks that touch the range, at most `limit`, in order."""
    rows = StoredChunk.objects.filter(topic=topic, last__gt=after, first__lte=upto)
    return list(rows.order_by("last").values_list("first", "last", "source")[:limit])


def chunks_at(topic: str, lasts: Sequence[int]) -> dict[int, Chunk]:
    """Whole chunks by their last number."""
    rows = _rows(topic, None).filter(last__in=lasts)
    return {row[1]: _as_chunk(topic, row) for row in rows}


def tail(topic: str, *, limit: int, source: str | None = None) -> list[Chunk]:
    """The last `limit` (> 0) records, oldest first, as chunks; the first one is cut to fit."""
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
    """Small first: a chunk may hold a thousand lines, and few readers want many of them."""
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
    return Chunk(topic, first, last, source, unpacked(body, compressed=compressed))
