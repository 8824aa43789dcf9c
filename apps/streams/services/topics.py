"""Topics: logs of records in the store, numbered 1, 2, 3 … without a hole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from apps.streams.domain.chunks import Batch, packed
from apps.streams.models import StoredChunk, Topic
from apps.streams.services.chunk_rows import ChunkRow, store_chunks
from apps.streams.services.nudges import nudge
from apps.streams.services.unit_of_work import unit_of_work


class TopicNotOpen(Exception):
    """An append to a topic that was never opened, was closed, or was deleted."""


@unit_of_work
def open_topics(names: Collection[str]) -> None:
    """Make the counter rows, in the transaction that makes what the topics tell of.

    Not on first use: two first writers would collide.
    """
    Topic.objects.bulk_create(Topic(name=name) for name in names)


@unit_of_work
def append(batches: Sequence[Batch]) -> dict[str, int]:
    """Store the batches, one chunk each, in order; followers are nudged after commit.

    Returns the last number of each topic that got records. Raises TopicNotOpen, and ValueError
    for a record with a newline. The topic's row stays locked until commit, so append late.
    """
    rows, counts = _rows([batch for batch in batches if batch.records])
    last_ids = store_chunks(rows, counts)
    if missing := counts.keys() - last_ids.keys():
        raise TopicNotOpen(f"topic {min(missing)!r} is not open")
    for topic in last_ids:
        nudge(topic)
    return last_ids


@unit_of_work
def close_topic(name: str, status: str) -> int:
    """Mark the end: followers get the `end` frame with `status` after the last record.

    Returns the last number. Raises TopicNotOpen, also when it is closed already.
    """
    if not Topic.objects.filter(name=name, closed="").update(closed=status):
        raise TopicNotOpen(f"topic {name!r} is not open")
    nudge(name)
    return Topic.objects.values_list("last_id", flat=True).get(name=name)


@unit_of_work
def delete_topics(names: Collection[str]) -> None:
    """Remove topics with their records; who still follows one gets a `gap` for what is missed."""
    gone = sorted(names)
    Topic.objects.filter(name__in=gone).delete()
    StoredChunk.objects.filter(topic__in=gone).delete()
    for name in gone:
        nudge(name)


def _rows(batches: Sequence[Batch]) -> tuple[list[ChunkRow], dict[str, int]]:
    """The chunks, and how many records each topic gets."""
    rows: list[ChunkRow] = []
    counts: dict[str, int] = defaultdict(int)
    for batch in batches:
        first = counts[batch.topic] + 1
        counts[batch.topic] += len(batch.records)
        body, compressed = packed(batch.records)
        rows.append(
            ChunkRow(batch.topic, first, counts[batch.topic], batch.source, compressed, body)
        )
    return rows, counts
