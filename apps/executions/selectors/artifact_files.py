"""The bytes of artifacts: one file, its preview, and all files of a run as one archive."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Final

from django.db.models import QuerySet

from apps.accounts.api import Principal
from apps.executions.domain.artifact_files import (
    INLINE_BYTES,
    archive_names,
    head_text,
    image_type,
)
from apps.executions.domain.artifact_storage import ArtifactLost
from apps.executions.domain.runs import ArtifactExpired, ArtifactNotFound
from apps.executions.models import Artifact, Execution
from apps.executions.selectors.artifact_bytes import artifact_bytes
from apps.executions.selectors.artifacts import ARTIFACT_ID
from apps.executions.selectors.runs import get_execution

_FAST: Final = 1  # level of compression: the sender waits, and most bytes are text
_FILE_MODE: Final = 0o644 << 16
_LOST: Final = "LOST.txt"  # in an archive: the files that their storage no longer has


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
    """Return the file; raise ExecutionNotFound, and as `stored_file`."""
    row = get_execution(principal, run_id)
    return stored_file(row.artifacts.filter(repeat=None), artifact_id)


def stored_file(rows: QuerySet[Artifact, Artifact], artifact_id: str) -> StoredFile:
    """Return the file of one of the artifacts.

    Raise ArtifactNotFound, ArtifactExpired, ArtifactLost or StorageUnavailable.
    """
    named = rows.filter(artifact_id=artifact_id)
    artifact = named.first() if ARTIFACT_ID.match(artifact_id) else None
    if artifact is None:
        raise ArtifactNotFound
    return StoredFile(
        file_name=artifact.path.rstrip("/").rpartition("/")[2] or artifact.artifact_id,
        media_type=artifact.media_type,
        sha256=artifact.sha256,
        body=artifact_bytes(artifact),
    )


def artifact_image(principal: Principal, run_id: str, artifact_id: str) -> StoredFile:
    """Return an image with the type that its bytes have; raise as `artifact_file`.

    Raise ArtifactNotFound for what is not a PNG, JPEG, GIF or WebP.
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
        text=head_text(body, len(body)),
        is_cut=len(body) > INLINE_BYTES,
        image_type=image_type(body),
    )


def artifact_archive(principal: Principal, run_id: str) -> Iterator[bytes]:
    """Return the parts of a zip of all artifacts whose bytes are there.

    Raise ExecutionNotFound, or StorageUnavailable before the first part. A storage that fails
    later breaks the archive off, so that nobody takes it for whole.
    """
    parts = _archive(get_execution(principal, run_id))
    first = next(parts)
    return chain([first], parts)


def _archive(row: Execution) -> Iterator[bytes]:
    """Yield the archive while it is made; holds one artifact at a time."""
    sink, pairs = _Sink(), _artifacts_with_names(row)
    times = {name: artifact.created_at.timetuple()[:6] for artifact, name in pairs}
    lost: list[str] = []
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=_FAST) as archive:
        for name, body in _files(pairs):
            if body is None:
                lost.append(name)
                continue
            archive.writestr(_entry(name, times[name]), body)
            yield sink.take()
        if lost:
            archive.writestr(_entry(_LOST), "".join(f"{name}\n" for name in lost))
    yield sink.take()


def _entry(name: str, time: tuple[int, ...] = (1980, 1, 1, 0, 0, 0)) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, time[:6])  # type: ignore[arg-type]  # six numbers
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = _FILE_MODE
    return entry


def _files(pairs: list[tuple[Artifact, str]]) -> Iterator[tuple[str, bytes | None]]:
    for artifact, name in pairs:
        with suppress(ArtifactExpired):  # meanwhile
            yield name, _body_of(artifact)


def _artifacts_with_names(row: Execution) -> list[tuple[Artifact, str]]:
    own = row.artifacts.filter(repeat=None, expired_at=None)
    artifacts = list(own.order_by("created_at", "artifact_id"))
    names = archive_names((each.step_id, each.attempt, each.path) for each in artifacts)
    return list(zip(artifacts, names, strict=True))


def _body_of(artifact: Artifact) -> bytes | None:
    """Return the bytes, None if their storage no longer has them; raise ArtifactExpired."""
    try:
        return artifact_bytes(artifact)
    except ArtifactLost:
        return None


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
