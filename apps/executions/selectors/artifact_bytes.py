"""The bytes of artifacts, wherever they are, and the storages that are open.

A storage that failed is not asked again for some seconds: callers get the error at once, and
uploads go into the store.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Final, cast
from uuid import UUID

from django.core.files.storage import storages

from apps.executions import conf
from apps.executions.domain.artifact_location import location_at
from apps.executions.domain.artifact_storage import (
    ArtifactLost,
    ArtifactStorage,
    ListedStorage,
    StorageMisconfigured,
    StorageUnavailable,
)
from apps.executions.domain.runs import ArtifactExpired
from apps.executions.models import Artifact, Blob, StoredObject
from apps.executions.storages.store import StoreStorage
from apps.health.api import Probe, ProbeResult

PAUSE_S: Final = 5.0
_store: Final = StoreStorage()
_paused_until: Final[dict[str, float]] = {}  # URL → monotonic seconds


def open_storage(url: str) -> ListedStorage:
    """Return a storage outside of the store; raise StorageMisconfigured."""
    location = conf.artifact_location()
    if location is not None and location.url == url:
        return cast(ListedStorage, storages["artifacts"])
    return _open_earlier(url)


@lru_cache(maxsize=8)
def _open_earlier(url: str) -> ListedStorage:
    """Open a storage that rows name and the setting no longer does."""
    try:
        return cast(ListedStorage, storages.create_storage(location_at(url).as_entry()))
    except ValueError as error:
        raise StorageMisconfigured(f"a row names a storage that cannot be read: {error}") from None


@contextmanager
def use_storage(url: str) -> Iterator[ListedStorage]:
    """Yield a storage, unless it failed within the last seconds; raise StorageUnavailable."""
    if time.monotonic() < _paused_until.get(url, 0.0):
        raise StorageUnavailable("it failed a moment ago")
    try:
        yield open_storage(url)
    except StorageUnavailable:
        _paused_until[url] = time.monotonic() + PAUSE_S
        raise


def forget_pauses() -> None:
    """Ask every storage again."""
    _paused_until.clear()


def artifact_bytes(artifact: Artifact) -> bytes:
    """Return the bytes; raise ArtifactExpired, ArtifactLost or StorageUnavailable."""
    if artifact.expired_at is not None:
        raise ArtifactExpired
    if artifact.stored_object_id is None:
        return _bytes_in_store(artifact.sha256)
    found = StoredObject.objects.filter(pk=artifact.stored_object_id)
    named = found.values_list("storage", "name").first()
    if named is None:  # it expired meanwhile
        raise ArtifactExpired
    with use_storage(named[0]) as storage:
        return _read_whole(storage, named[1], artifact)


def report_bytes(artifact: Artifact) -> bytes:
    """Return the bytes of a report; those of a small one need no storage outside of the store."""
    if artifact.expired_at is None and artifact.stored_object_id is not None:
        found = StoredObject.objects.filter(pk=artifact.stored_object_id)
        head = bytes(found.values_list("head", flat=True).first() or b"")
        if len(head) == artifact.size:
            return head
    return artifact_bytes(artifact)


def contents_of(artifacts: Iterable[Artifact]) -> Iterator[tuple[str, bytes]]:
    """Yield SHA-256 and bytes of each content that is there; hold one at a time.

    Raise StorageUnavailable.
    """
    rows = [each for each in artifacts if each.expired_at is None]
    digests = {each.sha256 for each in rows if each.stored_object_id is None}
    blobs = Blob.objects.filter(sha256__in=list(digests)).values_list("sha256", "data")
    for digest, data in blobs.iterator(chunk_size=1):
        yield digest, bytes(data)
    for digest, artifact in {each.sha256: each for each in rows}.items():
        if digest in digests:
            continue
        try:
            body = report_bytes(artifact)
        except (ArtifactExpired, ArtifactLost):
            continue
        yield digest, body


def heads_of(objects: Iterable[UUID]) -> Iterator[tuple[UUID, bytes, int]]:
    """Yield row, head and size of objects; no storage is asked."""
    rows = StoredObject.objects.filter(pk__in=list(objects)).values_list("pk", "head", "size")
    for pk, head, size in rows.iterator(chunk_size=20):
        yield pk, bytes(head), size


def check_artifact_storage() -> ProbeResult:
    """Return whether the storage takes uploads; without it they go into the store."""
    location = conf.artifact_location()
    if location is None:
        return ProbeResult(ready=True, detail="in the datastore", disabled=True)
    try:
        open_storage(location.url).check()
    except StorageUnavailable as error:
        return ProbeResult(
            ready=False, detail=f"{error.reason}; new artifacts go into the datastore"
        )
    return ProbeResult(ready=True)


def _bytes_in_store(sha256: str) -> bytes:
    try:
        return b"".join(_store.read(sha256))
    except ArtifactLost:  # it expired meanwhile
        raise ArtifactExpired from None


def _read_whole(storage: ArtifactStorage, name: str, artifact: Artifact) -> bytes:
    """Read no more than the artifact has; raise ArtifactLost for other bytes than were written."""
    body = bytearray()
    for chunk in storage.read(name):
        body += chunk
        if len(body) > artifact.size:
            break
    if hashlib.sha256(body).hexdigest() != artifact.sha256:
        raise ArtifactLost("the storage of artifacts has other bytes than were written")
    return bytes(body)


ARTIFACTS: Final = Probe(name="artifacts", required=False, check=check_artifact_storage)
