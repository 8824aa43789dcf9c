"""Topics: logs of records in the store, numbered 1, 2, 3 … without a hole."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.db.models import F

from apps.streams.domain.chunks import Batch, packed
from apps.streams.models import StoredChunk, Topic
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
    filled = [batch for batch in batches if batch.records]
    last_ids = _reserve(filled)
    places = {topic: last - _count(filled, topic) for topic, last in last_ids.items()}
    chunks = []
    for batch in filled:
        chunks.append(_chunk(batch, after=places[batch.topic]))
        places[batch.topic] += len(batch.records)
    StoredChunk.objects.bulk_create(chunks)
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


def _reserve(batches: Sequence[Batch]) -> dict[str, int]:
    """Raise the counters, always in the order of the names (else two writers could deadlock)."""
    topics = sorted({batch.topic for batch in batches})
    for topic in topics:
        raised = Topic.objects.filter(name=topic, closed="").update(
            last_id=F("last_id") + _count(batches, topic)
        )
        if not raised:
            raise TopicNotOpen(f"topic {topic!r} is not open")
    return dict(Topic.objects.filter(name__in=topics).values_list("name", "last_id"))


def _count(batches: Sequence[Batch], topic: str) -> int:
    return sum(len(batch.records) for batch in batches if batch.topic == topic)


def _chunk(batch: Batch, *, after: int) -> StoredChunk:
    body, compressed = packed(batch.records)
    return StoredChunk(
        topic=batch.topic,
        first=after + 1,
        last=after + len(batch.records),
        source=batch.source,
        compressed=compressed,
        body=body,
    )
