"""Synchronizing a registry: the index gets what the registry offers, the store what is new.

One synchronization of a registry runs at a time, by a lease in the store. What is due is found in
the store. A registry that fails keeps its repositories and their content.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db import IntegrityError
from django.db.models import Q

from apps.observability.api import metrics
from apps.oci import conf
from apps.oci.domain.package import Package
from apps.oci.domain.reference import Reference
from apps.oci.domain.repositories import (
    CatalogRefused,
    ConnectionReport,
    RegistryFailure,
    RepositoryError,
    SyncInProgress,
    SyncResult,
)
from apps.oci.domain.scanned import SYNC_S, KnownRepository, ScannedRepository
from apps.oci.models import IndexedRepository, RegistryState, SuiteIdAssignment
from apps.oci.selectors import settings_digest, stored_digests
from apps.oci.services.packages import open_client, registry_for, store_packages, within
from apps.oci.services.scan import Scan
from apps.operations.api import raise_generation
from apps.platform_settings.api import (
    ImageRegistry,
    RegistryNotFound,
    get_registry,
    record_sync,
    registries,
)
from apps.streams.api import unit_of_work
from kernel import clock
from kernel.ids import new_uuid

TEST_S: Final = 10.0
_log = logging.getLogger("partita.oci")
_LEASE: Final = timedelta(seconds=SYNC_S + 60)
_RETRY: Final = timedelta(seconds=60)  # a registry that failed is due again after this
_MAX_DETAIL: Final = 500
MAX_ERRORS: Final = 1_000  # of one result


def sync_registry(registry_id: str) -> SyncResult:
    """Read what a registry offers, store it, and return what was found.

    Every digest is asked for. A registry that cannot be read is an error in the result. Raise
    RegistryNotFound, SyncInProgress.
    """
    return _sync(registry_id, turn=None)


def _sync(registry_id: str, *, turn: int | None) -> SyncResult:
    registry = get_registry(registry_id)
    holder = secrets.token_hex(8)
    _take_lease(registry, holder)
    began = time.monotonic()
    errors: tuple[RepositoryError, ...] = ()
    failed = RegistryFailure("internal_error", "the synchronization failed")
    failure: RegistryFailure | None = failed
    try:
        errors = _synchronize(registry, holder, turn)
        failure = _whole_failure(errors)
    except RegistryFailure as error:
        failure = error
        errors = (RepositoryError(repository="", code=error.code, detail=error.detail),)
    finally:
        _release_lease(registry, holder, failure)
    _record(registry, failure, began)
    found = IndexedRepository.objects.filter(registry_id=_key(registry)).count()
    took_ms = round((time.monotonic() - began) * 1000)
    return SyncResult(packages=found, duration_ms=took_ms, errors=errors[:MAX_ERRORS])


def _record(registry: ImageRegistry, failure: RegistryFailure | None, began: float) -> None:
    """Tell the metrics and the settings how a synchronization ended; raise RegistryNotFound."""
    metrics.observe(
        "partita.catalog.sync.duration.ms",
        (time.monotonic() - began) * 1000,
        outcome="failed" if failure else "indexed",
    )
    error = f"{failure.detail} ({failure.code})" if failure else ""
    record_sync(registry.registry_id, succeeded=failure is None, error=error)


def sync_due() -> int:
    """Synchronize the registries that are due; return how many. Others may do so at once.

    None is begun after a minute: it stays due, and other tasks of this process have their turn.
    """
    done, began = 0, time.monotonic()
    turn = int(time.time() // max(1.0, conf.sync_interval().total_seconds()))
    for registry_id in due_registries():
        if done and time.monotonic() - began >= SYNC_S:
            break
        try:
            _sync(registry_id, turn=turn)
        except (SyncInProgress, RegistryNotFound) as error:
            _log.info("registry %s: %s", registry_id, error.detail)
            continue
        done += 1
    return done


def due_registries(*, late_by: timedelta = timedelta()) -> list[str]:
    """Return the registries that are due, also those whose settings changed since."""
    if not conf.sync_interval():
        return []
    now, known = clock.now(), registries()
    rows = RegistryState.objects.filter(registry_id__in=[_key(registry) for registry in known])
    states = {state.registry_id: state for state in rows}
    return [
        registry.registry_id
        for registry in known
        if _is_due(registry, states.get(_key(registry)), now - late_by)
    ]


def _is_due(registry: ImageRegistry, state: RegistryState | None, at: datetime) -> bool:
    if state is None:
        return True
    return state.leased_until <= at and (state.due_at <= at or state.place != _place(registry))


def test_connection(registry_id: str) -> ConnectionReport:
    """Ask a registry whether it answers and accepts the credentials; raise RegistryNotFound."""
    registry = get_registry(registry_id)
    began = time.monotonic()
    code = ""
    detail = "the registry answers and accepts the credentials"
    try:
        asyncio.run(_ping(registry, began + TEST_S))
    except CatalogRefused:
        detail = "the registry answers; it does not list its repositories"
    except RegistryFailure as error:
        code, detail = error.code, error.detail
    took_ms = round((time.monotonic() - began) * 1000)
    return ConnectionReport(reachable=not code, code=code, detail=detail, duration_ms=took_ms)


async def _ping(registry: ImageRegistry, deadline: float) -> None:
    async with open_client(registry) as client:
        await within(deadline, client.ping())


@unit_of_work
def assign_suite_id(repository: str, suite_id: str) -> str:
    """Return the suite id of a repository: the one that was assigned first."""
    row, created = SuiteIdAssignment.objects.get_or_create(
        repository=repository, defaults={"suite_id": suite_id}
    )
    if created:
        raise_generation("catalog")
    return row.suite_id


def index_package(reference: Reference, package: Package) -> bool:
    """Let the index have a package that was pulled by its tag, until the next synchronization.

    Return whether it stands for its repository from now on: a version that a synchronization chose
    and pulled stays. Raise PackageNotFound where no registry of the settings serves it.
    """
    registry = registry_for(reference)
    try:
        return _index(registry, reference, package)
    except IntegrityError:  # somebody else has indexed this repository at the same moment
        mine = IndexedRepository.objects.filter(registry_id=_key(registry), path=reference.path)
        return mine.filter(digest=package.digest).exists()


@unit_of_work
def _index(registry: ImageRegistry, reference: Reference, package: Package) -> bool:
    mine = IndexedRepository.objects.filter(registry_id=_key(registry), path=reference.path)
    before = mine.first()
    if before is not None and before.pulled and before.host == registry.host:
        return before.digest == package.digest
    if not reference.tag:
        return False
    scanned = ScannedRepository(
        path=reference.path,
        tags=tuple({*(before.tags if before else ()), reference.tag}),
        version=reference.tag,
        digest=package.digest,
        artifact_type=package.artifact_type,
        media_types=package.media_types,
        is_stored=True,
    )
    row = _row(registry, scanned, before)
    assert row is not None, "it has a tag"
    mine.delete()
    IndexedRepository.objects.bulk_create([row])
    raise_generation("catalog")
    return True


def _key(registry: ImageRegistry) -> str:
    return registry.registry_id.lower()


def _place(registry: ImageRegistry) -> str:
    return settings_digest(registry.url, registry.scope, registry.username)


@unit_of_work
def _take_lease(registry: ImageRegistry, holder: str) -> None:
    now = clock.now()
    state, _created = RegistryState.objects.get_or_create(
        registry_id=_key(registry), defaults={"leased_until": now, "due_at": now}
    )
    free = RegistryState.objects.filter(Q(leased_until__lte=now) | Q(holder=""), pk=state.pk)
    if not free.update(holder=holder, leased_until=now + _LEASE):
        raise _in_progress(registry)


def _require_lease(registry: ImageRegistry, holder: str) -> None:
    """Raise SyncInProgress where another one has taken over: we stood still for too long."""
    if not RegistryState.objects.filter(registry_id=_key(registry), holder=holder).exists():
        raise _in_progress(registry)


def _in_progress(registry: ImageRegistry) -> SyncInProgress:
    return SyncInProgress(f"registry {registry.registry_id} is being synchronized")


@unit_of_work
def _release_lease(registry: ImageRegistry, holder: str, failure: RegistryFailure | None) -> None:
    now = clock.now()
    pause = conf.sync_interval()
    outcome: dict[str, object] = {
        "error_code": failure.code if failure else "",
        "error_detail": failure.detail[:_MAX_DETAIL] if failure else "",
        "due_at": now + (min(pause, _RETRY) if failure else pause),
    }
    if failure is None:
        outcome["synced_at"] = now
    mine = RegistryState.objects.filter(registry_id=_key(registry), holder=holder)
    before = mine.values_list("error_code", "error_detail").first()
    mine.update(holder="", leased_until=now, place=_place(registry), **outcome)
    if before != (outcome["error_code"], outcome["error_detail"]):
        raise_generation("catalog")


def _whole_failure(errors: Sequence[RepositoryError]) -> RegistryFailure | None:
    """Return the failure of the registry as a whole, if there was one."""
    for error in errors:
        if not error.repository:
            return RegistryFailure(error.code, error.detail)
    return None


def _synchronize(
    registry: ImageRegistry, holder: str, turn: int | None
) -> tuple[RepositoryError, ...]:
    """Write what a scan finds, batch by batch; raise RegistryFailure, SyncInProgress."""
    rows = {row.path: row for row in IndexedRepository.objects.filter(registry_id=_key(registry))}
    known = {path: _known_of(row) for path, row in rows.items() if row.host == registry.host}
    stored = stored_digests()
    scan = Scan(registry, known, stored, turn=turn)
    gone: set[str] = set()
    for batch in scan:
        store_packages([scanned.pulled for scanned in batch if scanned.pulled])
        _write(registry, holder, batch, rows)
        gone |= {scanned.path for scanned in batch if scanned.is_gone}
    if _whole_failure(scan.errors) is None:
        gone |= rows.keys() - set(scan.names)
    _end(registry, holder, gone)
    return tuple(scan.errors)


def _known_of(row: IndexedRepository) -> KnownRepository:
    return KnownRepository(
        digest=row.digest,
        version=row.version,
        tags=frozenset(row.tags),
        artifact_type=row.artifact_type,
        media_types=tuple(row.media_types),
        pulled=row.pulled,
        error_code=row.error_code,
        error_detail=row.error_detail,
    )


@unit_of_work
def _write(
    registry: ImageRegistry,
    holder: str,
    batch: Sequence[ScannedRepository],
    rows: dict[str, IndexedRepository],
) -> None:
    """Write the rows that changed. A repository that could not be read keeps what it had."""
    _require_lease(registry, holder)
    changed = []
    for scanned in batch:
        before = rows.get(scanned.path)
        row = _row(registry, scanned, before)
        if row is not None and (before is None or _content(row) != _content(before)):
            changed.append(row)
    if changed:
        paths = [row.path for row in changed]  # one of them may have been pulled meanwhile
        IndexedRepository.objects.filter(registry_id=_key(registry), path__in=paths).delete()
        IndexedRepository.objects.bulk_create(changed)
        raise_generation("catalog")


def _row(
    registry: ImageRegistry, scanned: ScannedRepository, before: IndexedRepository | None
) -> IndexedRepository | None:
    """Return the row of a scanned; None for a repository that was never read."""
    row = IndexedRepository(
        id=before.pk if before else new_uuid(),
        registry_id=_key(registry),
        host=registry.host,
        path=scanned.path,
        repository=f"{registry.host}/{scanned.path}",
        error_code=scanned.error_code,
        error_detail=scanned.error_detail[:_MAX_DETAIL],
    )
    source: ScannedRepository | IndexedRepository = scanned
    if not scanned.tags:
        if before is None:
            return None
        source = before
    row.tags, row.version = list(source.tags), source.version
    row.digest, row.artifact_type = source.digest, source.artifact_type
    row.media_types = list(source.media_types)
    row.pulled = scanned.is_stored if source is scanned else bool(before and before.pulled)
    return row


_OWN: Final = frozenset(["_state", "id", "seen_at"])


def _content(row: IndexedRepository) -> dict[str, object]:
    return {name: value for name, value in vars(row).items() if name not in _OWN}


@unit_of_work
def _end(registry: ImageRegistry, holder: str, gone: set[str]) -> None:
    """Remove the repositories that are gone; note when the others were seen."""
    _require_lease(registry, holder)
    rows = IndexedRepository.objects.filter(registry_id=_key(registry))
    if gone:
        rows.filter(path__in=list(gone)).delete()
        raise_generation("catalog")
    rows.filter(error_code="").update(seen_at=clock.now())
