"""Topics: append-only logs in the store, whose records have consecutive numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from django.db import connection
from django.db.models import F

from apps.streams.domain.chunks import Batch, pack
from apps.streams.models import StoredChunk, Topic
from apps.streams.services.nudges import nudge
from apps.streams.services.unit_of_work import unit_of_work

# An append on PostgreSQL in one statement: by the ORM, it was a fifth of a transaction's cost.
# The topics are locked in the order of their names, so that two writers cannot deadlock.
_APPEND: Final = """
WITH counted AS (
    SELECT * FROM unnest(%b::text[], %b::bigint[]) AS given(name, count)
), locked AS (
    SELECT topic.id, counted.count FROM streams_topic topic JOIN counted USING (name)
    WHERE topic.closed = '' ORDER BY topic.name FOR UPDATE OF topic
), raised AS (
    UPDATE streams_topic topic SET last_id = topic.last_id + locked.count
    FROM locked WHERE topic.id = locked.id
    RETURNING topic.name, topic.last_id, topic.last_id - locked.count AS before
), inserted AS (
    INSERT INTO streams_storedchunk (id, topic, "first", "last", source, compressed, body)
    SELECT gen_random_uuid(), given.topic, before + given.first, before + given.last,
        given.source, given.compressed, given.body
    FROM unnest(%b::text[], %b::bigint[], %b::bigint[], %b::text[], %b::boolean[], %b::bytea[])
        AS given(topic, "first", "last", source, compressed, body)
    JOIN raised ON raised.name = given.topic
)
SELECT name, last_id FROM raised
"""


class TopicNotOpen(Exception):
    """An append to a topic that was never opened, was closed, or was deleted."""


@unit_of_work
def open_topics(names: Collection[str]) -> None:
    """Create topics, in the transaction that creates their subject.

    A creation at the first append would make two first writers collide.
    """
    Topic.objects.bulk_create(Topic(name=name) for name in names)


@unit_of_work
def append(batches: Sequence[Batch]) -> dict[str, int]:
    """Store the batches in order, one chunk each; followers are nudged after commit.

    Return the last number of each topic that got records. Raise TopicNotOpen, and ValueError for
    a record with a newline. The topic's row stays locked until commit, so append late.
    """
    rows, counts = _rows([batch for batch in batches if batch.records])
    last_ids = _store_chunks(rows, counts)
    if missing := counts.keys() - last_ids.keys():
        raise TopicNotOpen(f"topic {min(missing)!r} is not open")
    for topic in last_ids:
        nudge(topic)
    return last_ids


@unit_of_work
def close_topic(name: str, status: str) -> int:
    """Close the topic: followers get the `end` frame with `status` after the last record.

    Return the last number; raise TopicNotOpen, also when the topic is already closed.
    """
    if not Topic.objects.filter(name=name, closed="").update(closed=status):
        raise TopicNotOpen(f"topic {name!r} is not open")
    nudge(name)
    return Topic.objects.values_list("last_id", flat=True).get(name=name)


@unit_of_work
def delete_topics(names: Collection[str]) -> None:
    """Delete topics with their records; their followers get a `gap` for what they missed."""
    gone = sorted(names)
    Topic.objects.filter(name__in=gone).delete()
    StoredChunk.objects.filter(topic__in=gone).delete()
    for name in gone:
        nudge(name)


@unit_of_work
def trim_topic(name: str, *, upto: int) -> None:
    """Delete the chunks of which no record is after `upto`; a follower behind them gets a `gap`."""
    StoredChunk.objects.filter(topic=name, last__lte=upto).delete()


class ChunkRow(NamedTuple):
    """A chunk to insert; `first` and `last` count from 1 within this append to its topic."""

    topic: str
    first: int
    last: int
    source: str
    compressed: bool
    body: bytes


def _rows(batches: Sequence[Batch]) -> tuple[list[ChunkRow], dict[str, int]]:
    """Return the chunks, and the number of records by topic."""
    rows: list[ChunkRow] = []
    counts: dict[str, int] = defaultdict(int)
    for batch in batches:
        first = counts[batch.topic] + 1
        counts[batch.topic] += len(batch.records)
        body, compressed = pack(batch.records)
        rows.append(
            ChunkRow(batch.topic, first, counts[batch.topic], batch.source, compressed, body)
        )
    return rows, counts


def _store_chunks(rows: Sequence[ChunkRow], counts: Mapping[str, int]) -> dict[str, int]:
    """Raise the counter of each topic and insert its chunks with the next numbers.

    Return the last number of each topic, without the topics that are not open: roll back then.
    """
    if not rows:
        return {}
    if connection.vendor == "postgresql":
        columns = [list(column) for column in zip(*rows, strict=True)]
        with connection.cursor() as cursor:
            cursor.execute(_APPEND, [list(counts), list(counts.values()), *columns])
            return dict(cursor.fetchall())
    return _store_with_orm(rows, counts)


def _store_with_orm(rows: Sequence[ChunkRow], counts: Mapping[str, int]) -> dict[str, int]:
    still_open = Topic.objects.filter(closed="")
    opened = [
        name
        for name in sorted(counts)
        if still_open.filter(name=name).update(last_id=F("last_id") + counts[name])
    ]
    last_ids = dict(Topic.objects.filter(name__in=opened).values_list("name", "last_id"))
    before = {name: last - counts[name] for name, last in last_ids.items()}
    StoredChunk.objects.bulk_create(
        StoredChunk(
            topic=row.topic,
            first=before[row.topic] + row.first,
            last=before[row.topic] + row.last,
            source=row.source,
            compressed=row.compressed,
            body=row.body,
        )
        for row in rows
        if row.topic in before
    )
    return last_ids
