"""How an append reaches the store: the counters are raised, and the chunks inserted behind them.

By the ORM, and on PostgreSQL by one statement. Each step of a run appends some chunks of a line or
two, and the ORM's INSERT, with seven values a chunk in a text of its own, was a fifth of what the
transaction cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from django.db import connection
from django.db.models import F

from apps.streams.models import StoredChunk, Topic

# The topics are locked in the order of their names, or two writers could deadlock.
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


class ChunkRow(NamedTuple):
    """A chunk to insert; `first` and `last` count from 1 within what is appended to its topic."""

    topic: str
    first: int
    last: int
    source: str
    compressed: bool
    body: bytes


def store_chunks(rows: Sequence[ChunkRow], counts: Mapping[str, int]) -> dict[str, int]:
    """Raise the counter of each topic by its count and insert the chunks behind where it stood.

    Returns the last number of each topic. One that is not open is missing; roll back then.
    """
    if not rows:
        return {}
    if connection.vendor == "postgresql":
        return _by_one_statement(rows, counts)
    return _by_the_orm(rows, counts)


def _by_one_statement(rows: Sequence[ChunkRow], counts: Mapping[str, int]) -> dict[str, int]:
    columns = [list(column) for column in zip(*rows, strict=True)]
    with connection.cursor() as cursor:
        cursor.execute(_APPEND, [list(counts), list(counts.values()), *columns])
        return dict(cursor.fetchall())


def _by_the_orm(rows: Sequence[ChunkRow], counts: Mapping[str, int]) -> dict[str, int]:
    opened = [name for name in sorted(counts) if _raise_counter(name, by=counts[name])]
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


def _raise_counter(name: str, *, by: int) -> int:
    return Topic.objects.filter(name=name, closed="").update(last_id=F("last_id") + by)
