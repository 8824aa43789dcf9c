"""The bytes of artifacts, wherever they are, and the storages that are open.

A storage that does not answer is not asked again for some seconds: callers get the error at once,
and uploads go into the store. One that refuses costs no time: each caller asks it.
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
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
    StorageUnreachable,
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
    """Yield a storage, unless it did not answer a moment ago; raise StorageUnavailable."""
    if time.monotonic() < _paused_until.get(url, 0.0):
        raise StorageUnreachable("it did not answer a moment ago")
    try:
        yield open_storage(url)
    except StorageUnreachable:
        _paused_until[url] = time.monotonic() + PAUSE_S
        raise


def forget_pauses() -> None:
    """Ask every storage again."""
    _paused_until.clear()


def artifact_bytes(artifact: Artifact) -> bytes:
    """Return the bytes; raise ArtifactExpired, ArtifactLost or StorageUnavailable.

    `artifacts move` may have moved them since the row was read: a miss is looked for once more.
    """
    try:
        return _bytes_where_named(artifact)
    except (ArtifactExpired, ArtifactLost, StorageUnavailable):
        row = Artifact.objects.filter(pk=artifact.pk).first()
        if row is None or row.expired_at is not None:
            raise ArtifactExpired from None
        if row.stored_object_id == artifact.stored_object_id:
            raise
    return _bytes_where_named(row)


def _bytes_where_named(artifact: Artifact) -> bytes:
    if artifact.expired_at is not None:
        raise ArtifactExpired
    if artifact.stored_object_id is None:
        return b"".join(_store.read(artifact.sha256))
    found = StoredObject.objects.filter(pk=artifact.stored_object_id)
    named = found.values_list("storage", "name").first()
    if named is None:
        raise ArtifactLost
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


def contents_of(artifacts: Iterable[Artifact]) -> Iterator[tuple[str, bytes | None]]:
    """Yield SHA-256 and bytes of each content that has not expired; hold one at a time.

    The bytes are None where their storage no longer has them. Raise StorageUnavailable.
    """
    rows: dict[str, list[Artifact]] = defaultdict(list)
    for each in artifacts:
        if each.expired_at is None:
            rows[each.sha256].append(each)
    inside = [digest for digest, equal in rows.items() if any(map(_is_in_store, equal))]
    blobs = Blob.objects.filter(sha256__in=inside).values_list("sha256", "data")
    for digest, data in blobs.iterator(chunk_size=1):
        del rows[digest]
        yield digest, bytes(data)
    for digest, equal in rows.items():  # outside of the store, or moved there meanwhile
        with suppress(ArtifactExpired):
            yield digest, _bytes_of_any(equal)


def _is_in_store(artifact: Artifact) -> bool:
    return artifact.stored_object_id is None


def _bytes_of_any(equal: Iterable[Artifact]) -> bytes | None:
    """Return the bytes of equal artifacts, None if they are lost; raise ArtifactExpired."""
    is_lost = False
    for artifact in equal:
        try:
            return report_bytes(artifact)
        except ArtifactExpired:
            continue
        except ArtifactLost:
            is_lost = True
    if not is_lost:
        raise ArtifactExpired
    return None


def heads_of(objects: Iterable[UUID]) -> Iterator[tuple[UUID, bytes, int]]:
    """Yield row, head and size of objects; no storage is asked."""
    rows = StoredObject.objects.filter(pk__in=list(objects), removed_at=None)  # others have no head
    for pk, head, size in rows.values_list("pk", "head", "size").iterator(chunk_size=20):
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
