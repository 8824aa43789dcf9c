"""Artifacts as they go on the wire, and their bytes."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from apps.accounts.api import Principal
from apps.executions.domain.errors import ArtifactNotFound
from apps.executions.models import Artifact, Blob, Execution
from apps.executions.selectors.scope import get_execution
from kernel import clock

INLINE_BYTES: Final = 64 * 2**10
_ARTIFACT_ID: Final = re.compile(r"^[a-z0-9-]{1,300}\Z")
_HEADS_KEPT: Final = 256
_heads: dict[str, str | None] = {}
_heads_lock = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """An artifact and its bytes; `sha256` is hex, `file_name` the last part of its path."""

    file_name: str
    media_type: str
    sha256: str
    body: bytes


def artifacts_of(row: Execution) -> list[dict[str, Any]]:
    """Every artifact of the run, oldest first; text with its first 64 KiB."""
    artifacts = list(row.artifacts.order_by("created_at", "artifact_id"))
    heads = _heads_of({artifact.sha256 for artifact in artifacts})
    return [_wire(row.run_id, artifact, heads.get(artifact.sha256)) for artifact in artifacts]


def artifact_file(principal: Principal, run_id: str, artifact_id: str) -> StoredFile:
    """Raises ExecutionNotFound, ArtifactNotFound."""
    row = get_execution(principal, run_id)
    named = row.artifacts.filter(artifact_id=artifact_id)
    artifact = named.first() if _ARTIFACT_ID.match(artifact_id) else None
    if artifact is None:
        raise ArtifactNotFound
    return StoredFile(
        file_name=artifact.path.rstrip("/").rpartition("/")[2] or artifact.artifact_id,
        media_type=artifact.media_type,
        sha256=artifact.sha256,
        body=bytes(Blob.objects.values_list("data", flat=True).get(sha256=artifact.sha256)),
    )


def _wire(run_id: str, artifact: Artifact, head: str | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": artifact.artifact_id,
        "stepId": artifact.step_id,
        "stepName": artifact.step_name,
        "path": artifact.path,
        "on": artifact.on,
        "format": artifact.format,
        "attempt": artifact.attempt,
        "size": artifact.size,
        "sha256": artifact.sha256,
        "mediaType": artifact.media_type,
        "href": f"/api/v1/executions/{run_id}/artifacts/{artifact.artifact_id}",
        "createdAt": clock.rfc3339(artifact.created_at),
    }
    return document | _optional(artifact, head)


def _optional(artifact: Artifact, head: str | None) -> dict[str, Any]:
    optional: dict[str, Any] = {}
    if artifact.name:
        optional["name"] = artifact.name
    if artifact.test_summary is not None:
        optional["testSummary"] = artifact.test_summary
    if head is not None:
        optional["content"] = head
        if artifact.size > INLINE_BYTES:
            optional["truncated"] = True
    return optional


def _heads_of(digests: Iterable[str]) -> Mapping[str, str | None]:
    """SHA-256 → the beginning of a text, None for what is no UTF-8 text.

    One query for those not in memory; one body at a time is held.
    """
    wanted = set(digests)
    with _heads_lock:
        known = {digest: _heads[digest] for digest in wanted & _heads.keys()}
    if missing := wanted - known.keys():
        blobs = Blob.objects.filter(sha256__in=list(missing)).values_list("sha256", "data")
        read = {digest: text_head(bytes(data)) for digest, data in blobs.iterator(chunk_size=1)}
        _keep(read)
        known |= read
    return known


def _keep(read: Mapping[str, str | None]) -> None:
    with _heads_lock:
        _heads.update(read)
        for digest in list(_heads)[:-_HEADS_KEPT]:
            del _heads[digest]


def text_head(body: bytes) -> str | None:
    """The characters of the first 64 KiB, None unless they are UTF-8 without NUL."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(body[:INLINE_BYTES], final=len(body) <= INLINE_BYTES)
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text
