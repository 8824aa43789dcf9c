"""The next page of a stream, read from the store and framed; runs on the hub's threads."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from apps.streams import selectors
from apps.streams.domain.chunks import Chunk
from apps.streams.domain.frames import MOST_RECORDS, Page, Wrapping, page_of

_MOST_PLACES: Final = 512  # chunks looked at for one page of a few sources


def read_page(
    topic: str, wrapping: Wrapping, *, after: int, upto: int, sources: Collection[str]
) -> Page:
    """About 1,000 records or 1 MiB beyond `after`, none beyond `upto` (committed, > `after`)."""
    if sources:
        chunks, reach = _of_sources(topic, after, upto, sources)
    else:
        chunks, reach = _of_all(topic, after, upto)
    return page_of(chunks, wrapping, after=after, upto=reach)


def _of_all(topic: str, after: int, upto: int) -> tuple[list[Chunk], int]:
    reach = min(upto, after + MOST_RECORDS)
    if chunks := selectors.between(topic, after=after, upto=reach):
        return chunks, reach
    behind_hole = selectors.places(topic, after=after, upto=upto, limit=1)
    return [], behind_hole[0][0] - 1 if behind_hole else upto


def _of_sources(
    topic: str, after: int, upto: int, sources: Collection[str]
) -> tuple[list[Chunk], int]:
    """Chunks of other sources come without records: numbers passed over, not missing."""
    places = selectors.places(topic, after=after, upto=upto, limit=_MOST_PLACES)
    reach = places[-1][1] if len(places) == _MOST_PLACES else upto
    wanted, records = [], 0
    for first, last, source in places:
        if source in sources:
            wanted.append(last)
            records += last - first + 1
            if records >= MOST_RECORDS:
                reach = last
                break
    found = selectors.chunks_at(topic, wanted) if wanted else {}
    chunks = (
        found.get(last) if source in sources else Chunk(topic, first, last, source, ())
        for first, last, source in places
        if last <= reach
    )
    return [chunk.cut(after=after, upto=reach) for chunk in chunks if chunk], reach
