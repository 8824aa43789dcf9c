"""Bytes that are stored once under their digest, and the artifacts that name them."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from apps.executions.models import Artifact, Blob, Snapshot, StepRepeat
from apps.executions.services.run_aggregate import RunAggregate
from kernel import clock
from kernel.agent_protocol import ArtifactUpload
from kernel.ids import slug


def store_blob(sha256: str, body: bytes) -> None:
    """Store bytes under their digest, or use the row of equal bytes."""
    if not use(Blob.objects.filter(sha256=sha256)):
        Blob.objects.create(sha256=sha256, size=len(body), data=body)


def use(rows: QuerySet[Any, Any], **changes: object) -> int:
    """Change `used_at` of the rows; return how many there are."""
    return rows.update(used_at=clock.now(), **changes)


def remove_unused_blobs(hashes: set[str]) -> None:
    """Remove the bytes with these digests that no artifact, snapshot or repeat names any longer.

    A launch or an upload that needs the same bytes conflicts with it: both change `used_at`.
    """
    use(Blob.objects.filter(sha256__in=hashes))
    artifacts = Artifact.objects.filter(sha256__in=hashes, expired_at=None)
    archives = Snapshot.objects.filter(archive_sha256__in=hashes)
    contents = StepRepeat.objects.filter(content_sha256__in=hashes)
    named = {
        *artifacts.values_list("sha256", flat=True),
        *archives.values_list("archive_sha256", flat=True),
        *contents.values_list("content_sha256", flat=True),
    }
    Blob.objects.filter(sha256__in=hashes - named).delete()


def new_artifact(
    run: RunAggregate,
    index: int,
    upload: ArtifactUpload,
    sha256: str,
    *,
    repeat: StepRepeat | None = None,
) -> Artifact:
    """Return an artifact of the step's present attempt, or of a repeat; it is not saved."""
    node = run.definition.nodes[index]
    file_name = upload.path.rsplit("/", 1)[-1]
    return Artifact(
        execution_id=run.execution.pk,
        repeat=repeat,
        artifact_id=_free_id(run, f"{node['id']}-{upload.name or file_name}-{upload.format}"),
        step_id=node["id"],
        step_name=node["name"],
        attempt=repeat.attempt if repeat else run.attempt(index),
        path=upload.path,
        name=upload.name,
        on=upload.on,
        format=upload.format,
        media_type=upload.media_type,
        size=len(upload.body),
        sha256=sha256,
        created_at=run.now,
    )


def _free_id(run: RunAggregate, wanted: str) -> str:
    base = slug(wanted)[:280]
    taken = set(
        Artifact.objects.filter(
            execution_id=run.execution.pk, artifact_id__startswith=base
        ).values_list("artifact_id", flat=True)
    )
    number = 1
    while (candidate := base if number == 1 else f"{base}-{number}") in taken:
        number += 1
    return candidate
