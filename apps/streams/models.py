"""Topics in the store: a row with a counter for each, and chunks of consecutive records."""

from __future__ import annotations

from django.db import models

from kernel.ids import new_uuid

NAME_LENGTH = 128


class Topic(models.Model):
    """A topic; `last_id` is the number of its last record, `closed` the status in the `end` frame.

    An append raises `last_id` first and locks the row until commit, so numbers are consecutive and
    a record is never visible before one with a smaller number.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    name = models.CharField(max_length=NAME_LENGTH, unique=True)
    last_id = models.PositiveBigIntegerField(default=0)
    closed = models.CharField(max_length=32, blank=True)

    def __str__(self) -> str:
        return f"{self.name} at {self.last_id}"


class StoredChunk(models.Model):
    """Records `first` to `last` of one source, joined by newlines, zlib when `compressed`.

    It has the topic's name instead of a foreign key, so that one index finds a record.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    topic = models.CharField(max_length=NAME_LENGTH)
    first = models.PositiveBigIntegerField()
    last = models.PositiveBigIntegerField()
    source = models.CharField(max_length=300, blank=True)
    compressed = models.BooleanField(default=False)
    body = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["topic", "last"], name="streams_chunk_place"),
        ]

    def __str__(self) -> str:
        return f"{self.topic} {self.first}-{self.last}"
