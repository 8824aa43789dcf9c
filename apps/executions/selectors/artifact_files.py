"""The bytes of artifacts: one file, its preview, and all files of a run as one archive."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from django.db.models import QuerySet

from apps.accounts.api import Principal
from apps.executions.domain.artifact_files import archive_names, image_type
from apps.executions.domain.runs import ArtifactExpired, ArtifactNotFound
from apps.executions.models import Artifact, Blob, Execution
from apps.executions.selectors.artifacts import ARTIFACT_ID, INLINE_BYTES, text_head
from apps.executions.selectors.runs import all_runs, find_run, get_execution

_FAST: Final = 1  # level of compression: the sender waits, and most bytes are text
_FILE_MODE: Final = 0o644 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """An artifact and its bytes; `file_name` is the last part of its path."""

    file_name: str
    media_type: str
    sha256: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactPreview:
    """What a page shows of an artifact: a text, or an image by its address, or neither."""

    text: str | None
    is_cut: bool
    image_type: str


def artifact_file(principal: Principal, run_id: str, artifact_id: str) -> StoredFile:
    """Return the file; raise ExecutionNotFound, ArtifactNotFound or ArtifactExpired."""
    row = get_execution(principal, run_id)
    return stored_file(row.artifacts.filter(repeat=None), artifact_id)


def stored_file(rows: QuerySet[Artifact, Artifact], artifact_id: str) -> StoredFile:
    """Return the file of one of the artifacts; raise ArtifactNotFound or ArtifactExpired."""
    named = rows.filter(artifact_id=artifact_id)
    artifact = named.first() if ARTIFACT_ID.match(artifact_id) else None
    if artifact is None:
        raise ArtifactNotFound
    body = _body_of(artifact)
    if body is None:
        raise ArtifactExpired
    return StoredFile(
        file_name=artifact.path.rstrip("/").rpartition("/")[2] or artifact.artifact_id,
        media_type=artifact.media_type,
        sha256=artifact.sha256,
        body=body,
    )


def artifact_image(principal: Principal, run_id: str, artifact_id: str) -> StoredFile:
    """Return an image with the type that its bytes have; raise as `artifact_file`.

    Raise ArtifactNotFound for what is no PNG, JPEG, GIF or WebP.
    """
    file = artifact_file(principal, run_id, artifact_id)
    found = image_type(file.body)
    if not found:
        raise ArtifactNotFound("the artifact is not a PNG, JPEG, GIF or WebP image")
    return StoredFile(
        file_name=file.file_name, media_type=found, sha256=file.sha256, body=file.body
    )


def artifact_preview(principal: Principal, run_id: str, artifact_id: str) -> ArtifactPreview:
    """Return what a page shows of an artifact; raise as `artifact_file`."""
    body = artifact_file(principal, run_id, artifact_id).body
    return ArtifactPreview(
        text=text_head(body), is_cut=len(body) > INLINE_BYTES, image_type=image_type(body)
    )


def artifact_archive(principal: Principal, run_id: str) -> Iterator[bytes]:
    """Return the parts of a zip of all artifacts whose bytes are there; raise ExecutionNotFound."""
    return _archive(get_execution(principal, run_id))


def run_artifact_files(run_id: str) -> Iterator[tuple[str, bytes]]:
    """Yield (name in an archive, bytes) of the artifacts of a run of any workspace, for commands.

    Raise ExecutionNotFound before the first.
    """
    return _files(find_run(all_runs(), run_id))


def _archive(row: Execution) -> Iterator[bytes]:
    """Yield the archive while it is made; holds one artifact at a time."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=_FAST) as archive:
        for artifact, name in _artifacts_with_names(row):
            body = _body_of(artifact)
            if body is None:  # it expired meanwhile
                continue
            entry = zipfile.ZipInfo(name, artifact.created_at.timetuple()[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = _FILE_MODE
            archive.writestr(entry, body)
            yield sink.take()
    yield sink.take()


def _files(row: Execution) -> Iterator[tuple[str, bytes]]:
    pairs = _artifacts_with_names(row)
    bodies = ((name, _body_of(artifact)) for artifact, name in pairs)
    return ((name, body) for name, body in bodies if body is not None)


def _artifacts_with_names(row: Execution) -> list[tuple[Artifact, str]]:
    own = row.artifacts.filter(repeat=None, expired_at=None)
    artifacts = list(own.order_by("created_at", "artifact_id"))
    names = archive_names((each.step_id, each.attempt, each.path) for each in artifacts)
    return list(zip(artifacts, names, strict=True))


def _body_of(artifact: Artifact) -> bytes | None:
    """Return the bytes, or None once they are removed."""
    if artifact.expired_at is not None:
        return None
    data = Blob.objects.filter(sha256=artifact.sha256).values_list("data", flat=True).first()
    return None if data is None else bytes(data)


class _Sink:
    """A file without places to go back to, which gives what was written since the last time."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes, /) -> int:
        self._written += data
        return len(data)

    def flush(self) -> None:
        """Do nothing: `take` is the way out."""

    def close(self) -> None:
        """Do nothing, as `flush`."""

    def take(self) -> bytes:
        taken = bytes(self._written)
        self._written.clear()
        return taken
