"""Bytes of artifacts outside of the store: written before their row, removed after it.

A crash between the two leaves an object that no row names. `remove_orphans` finds it a day later.
(reference: control-plane 11.11)
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from django.db.models import QuerySet

from apps.executions import conf
from apps.executions.domain.artifact_files import head_of
from apps.executions.domain.artifact_storage import (
    ArtifactStorage,
    StorageMisconfigured,
    StorageUnavailable,
    is_object_name,
    object_name,
)
from apps.executions.models import Artifact, StoredObject
from apps.executions.selectors.artifact_bytes import open_storage, use_storage
from apps.executions.services.stored_files import store_blob
from apps.executions.services.work_leases import is_put_off, put_off_work
from apps.operations.api import installation_id
from apps.streams.api import unit_of_work
from kernel import clock
from kernel.background import report_error

REMOVALS: Final = 100  # of one storage in one turn
FAILURES: Final = 3  # in a row, after which a storage is left alone until the next turn
PAGE: Final = 500  # objects that one turn compares with the rows
ORPHAN_AGE: Final = timedelta(days=1)  # no upload takes as long
RESTORE_GRACE: Final = timedelta(days=7)
_ORPHANS: Final = "artifact-orphans"  # a lease that nobody holds
_log = logging.getLogger("partita.executions")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedBytes:
    """The bytes of an upload. `written`: their object, whose row is not saved yet.

    Without one they go into the store, in the transaction of their artifact.
    """

    sha256: str
    body: bytes
    written: StoredObject | None = None


def bytes_for_store(body: bytes) -> PlacedBytes:
    """Return bytes that go into the store, wherever others go."""
    return PlacedBytes(sha256=hashlib.sha256(body).hexdigest(), body=body)


def place_bytes(run_id: str, body: bytes) -> PlacedBytes:
    """Write bytes to the configured storage; one that is unavailable leaves them to the store."""
    try:
        return write_bytes(run_id, body)
    except StorageUnavailable as error:
        _log.warning("an artifact of %s goes into the datastore: %s", run_id, error.detail)
        return bytes_for_store(body)


def write_bytes(run_id: str, body: bytes) -> PlacedBytes:
    """Write bytes to the configured storage; raise StorageUnavailable."""
    placed, location = bytes_for_store(body), conf.artifact_location()
    if location is None:
        return placed
    name = object_name(installation_id(), run_id, uuid4().hex)
    with use_storage(location.url) as storage:
        storage.write(name, body)
    written = StoredObject(
        storage=location.url, name=name, size=len(body), head=head_of(body), created_at=clock.now()
    )
    return replace(placed, written=written)


def keep_bytes(placed: PlacedBytes) -> StoredObject | None:
    """Store the bytes, or the row of their object, in the transaction of their artifact.

    Return that row.
    """
    if placed.written is None:
        store_blob(placed.sha256, placed.body)
    else:
        placed.written.save(force_insert=True)
    return placed.written


def discard_bytes(placed: PlacedBytes) -> None:
    """Remove an object that no row names; one that stays is an orphan."""
    if placed.written is None or StoredObject.objects.filter(name=placed.written.name).exists():
        return  # a repeated transaction finds the artifact that its first try stored
    try:
        with use_storage(placed.written.storage) as storage:
            storage.remove(placed.written.name)
    except StorageUnavailable as error:
        _log.warning("an unused object stays for a day: %s", error.detail)


def held_bytes(artifacts: QuerySet[Artifact, Artifact]) -> tuple[set[str], set[UUID]]:
    """Return what artifacts hold: digests of bytes in the store, and keys of objects elsewhere."""
    hashes = artifacts.filter(stored_object=None).values_list("sha256", flat=True)
    objects = artifacts.exclude(stored_object=None).values_list("stored_object_id", flat=True)
    return set(hashes), set(objects)


def mark_objects_removed(pks: Collection[UUID]) -> None:
    """Have objects removed, whose artifacts are gone or have expired; part of their transaction."""
    if pks:
        StoredObject.objects.filter(pk__in=pks).update(removed_at=clock.now(), head=b"")


def marked_objects() -> QuerySet[StoredObject, StoredObject]:
    return StoredObject.objects.filter(removed_at__lte=clock.now())  # bounds: an index serves it


def remove_marked_objects() -> int:
    """Remove bytes of marked objects, then their rows; return how many.

    At most `REMOVALS` of each storage. One that is unavailable keeps its rows for a later turn.
    """
    urls = marked_objects().order_by().values_list("storage", flat=True).distinct()
    return sum(_remove_marked_of(url) for url in sorted(urls))


def _remove_marked_of(url: str) -> int:
    marked = marked_objects().filter(storage=url).order_by("removed_at")
    rows = {name: pk for pk, name in marked.values_list("pk", "name")[:REMOVALS]}
    own = [name for name in rows if name.startswith(f"{installation_id()}/")]
    foreign = rows.keys() - set(own)  # those of the original of a copied store stay
    try:
        done, failed = _remove_each(open_storage(url), own)
    except StorageMisconfigured as error:
        _log.warning("objects in %s are not removed yet: %s", url, error.detail)
        report_error(optional=True)
        done, failed = [], []
    _forget_objects([rows[name] for name in (*foreign, *done)])
    _postpone_removals([rows[name] for name in failed])
    return len(foreign) + len(done)


def _remove_each(storage: ArtifactStorage, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Remove objects; return the names of those that are gone and of those that failed.

    One that fails keeps no other from its removal. `FAILURES` in a row end it: the storage is away.
    """
    done, failed, in_a_row = list[str](), list[str](), 0
    reason = ""
    for name in names:
        try:
            storage.remove(name)
        except StorageUnavailable as error:
            failed.append(name)
            reason, in_a_row = error.detail, in_a_row + 1
        else:
            done.append(name)
            in_a_row = 0
        if in_a_row == FAILURES:
            break
    if failed:
        _log.warning("objects are not removed yet, such as %s: %s", failed[-1], reason)
        report_error(optional=True)
    return done, failed


@unit_of_work
def _postpone_removals(pks: Collection[UUID]) -> None:
    """Put objects that could not be removed behind all others."""
    if pks:
        StoredObject.objects.filter(pk__in=pks).update(removed_at=clock.now())


@unit_of_work
def _forget_objects(pks: Collection[UUID]) -> None:
    StoredObject.objects.filter(pk__in=pks).delete()


def put_off_orphans() -> None:
    """Remove no orphans for a week: the store is older than its objects.

    Objects that were written since its backup have no row. If the wrong backup was restored, a
    newer one still finds them.
    """
    put_off_work(_ORPHANS, RESTORE_GRACE)


def remove_orphans(after: str = "") -> str:
    """Compare one page of our objects with the rows; return the last name, "" at the end.

    Removes objects older than `ORPHAN_AGE` that no row names, and has those removed that a row
    names but no artifact. Those that cannot be removed wait for the next round. Foreign objects are
    never touched. Does nothing after `put_off_orphans`. Raise StorageUnavailable.
    """
    location = conf.artifact_location()
    if location is None or is_put_off(_ORPHANS):
        return ""
    storage = open_storage(location.url)
    page = storage.list_objects(installation_id(), after, PAGE)
    before = clock.now() - ORPHAN_AGE
    old = [each.name for each in page if each.modified_at < before and is_object_name(each.name)]
    known = dict(StoredObject.objects.filter(name__in=old).values_list("name", "pk"))
    orphans = [name for name in old if name not in known]
    done, _ = _remove_each(storage, orphans)
    if done:
        _log.info("%d objects that no artifact has are removed, such as %s", len(done), done[0])
    _mark_unnamed(set(known.values()))
    return page[-1].name if page else ""  # a server may send fewer than it was asked for


@unit_of_work
def _mark_unnamed(pks: Collection[UUID]) -> None:
    """Mark objects whose artifacts an older process removed during an upgrade."""
    named = Artifact.objects.filter(stored_object_id__in=list(pks))
    mark_objects_removed(set(pks) - set(named.values_list("stored_object_id", flat=True)))
