"""Where the bytes of artifacts are, and how they come to where ARTIFACT_STORAGE says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from django.db.models import Count, Q, QuerySet, Sum

from apps.executions import conf
from apps.executions.domain.artifact_storage import ArtifactLost
from apps.executions.domain.runs import ArtifactExpired
from apps.executions.models import Artifact, StoredObject
from apps.executions.selectors.artifact_bytes import artifact_bytes
from apps.executions.services.artifact_objects import (
    PlacedBytes,
    discard_bytes,
    keep_bytes,
    mark_objects_removed,
    marked_objects,
    write_bytes,
)
from apps.executions.services.stored_files import remove_unused_blobs
from apps.streams.api import unit_of_work

STORE: Final = "store"
_BATCH: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePart:
    """What one storage holds: artifacts that have not expired, and objects still to be removed."""

    storage: str = STORE
    artifacts: int = 0
    size: int = 0
    removals: int = 0


def storage_parts() -> list[StoragePart]:
    """Return each storage that rows name, the configured one first."""
    location = conf.artifact_location()
    parts = {(location.url if location else STORE): StoragePart()}
    inside = Artifact.objects.filter(expired_at=None, stored_object=None)
    held = inside.aggregate(rows=Count("pk"), bytes=Sum("size"))
    if held["rows"]:
        parts[STORE] = StoragePart(artifacts=held["rows"], size=held["bytes"])
    objects = StoredObject.objects.order_by().values_list("storage")
    sums = objects.filter(removed_at=None).annotate(Count("pk"), Sum("size"))
    for storage, rows, size in sums:
        parts[storage] = StoragePart(artifacts=rows, size=size)
    for storage, rows in marked_objects().order_by().values_list("storage").annotate(Count("pk")):
        parts[storage] = replace(parts.get(storage, StoragePart()), removals=rows)
    return [replace(part, storage=storage) for storage, part in parts.items()]


@dataclass(frozen=True, slots=True)
class MovedArtifact:
    """One step of a move; `is_lost`: its storage no longer has the bytes."""

    artifact: str
    size: int
    is_lost: bool = False


def move_artifacts() -> Iterator[MovedArtifact]:
    """Move the bytes of all artifacts to where new ones go; may be stopped and run again.

    Beside running processes. Raise StorageUnavailable.
    """
    last: UUID | None = None
    while rows := list(_elsewhere(last).select_related("execution")[:_BATCH]):
        for row in rows:
            if (moved := _move(row)) is not None:
                yield moved
        last = rows[-1].pk


def _elsewhere(last: UUID | None) -> QuerySet[Artifact, Artifact]:
    location = conf.artifact_location()
    rows = Artifact.objects.filter(expired_at=None).order_by("pk")
    if last is not None:
        rows = rows.filter(pk__gt=last)
    if location is None:
        return rows.filter(stored_object__isnull=False)
    return rows.filter(Q(stored_object=None) | ~Q(stored_object__storage=location.url))


def _move(row: Artifact) -> MovedArtifact | None:
    name = f"{row.execution.run_id}/{row.artifact_id}"
    try:
        body = artifact_bytes(row)
    except ArtifactExpired:
        return None
    except ArtifactLost:
        return MovedArtifact(name, row.size, is_lost=True)
    placed = write_bytes(row.execution.run_id, body)
    if not _change_place(row, placed):
        discard_bytes(placed)
        return None
    return MovedArtifact(name, row.size)


@unit_of_work
def _change_place(row: Artifact, placed: PlacedBytes) -> bool:
    """Have the row name the new place, unless it expired, was removed or moved meanwhile."""
    earlier = row.stored_object_id
    place = placed.written.pk if placed.written else None
    if Artifact.objects.filter(pk=row.pk, expired_at=None, stored_object_id=place).exists():
        return True  # this transaction is a repeat, and its first try was stored
    same = Artifact.objects.filter(pk=row.pk, expired_at=None, stored_object_id=earlier)
    if not same.update(stored_object_id=place):  # first a write, as of what expires and removes
        return False
    keep_bytes(placed)
    if earlier is None:
        remove_unused_blobs({row.sha256})
    else:
        mark_objects_removed({earlier})
    return True
