"""Bytes that are stored once under their digest, and the artifacts that name them."""

from __future__ import annotations

from typing import Final

from apps.executions.models import Artifact, StepRepeat
from apps.executions.services.run_aggregate import RunAggregate
from apps.executions.storages.store import StoreStorage
from kernel.agent_protocol import ArtifactUpload
from kernel.ids import slug

_store: Final = StoreStorage()


def store_blob(sha256: str, body: bytes) -> None:
    """Store bytes under their digest, or use the row of equal bytes."""
    _store.write(sha256, body)


def remove_unused_blobs(hashes: set[str]) -> None:
    """Remove the bytes with these digests that nothing names any longer."""
    _store.remove_unused(hashes)


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
