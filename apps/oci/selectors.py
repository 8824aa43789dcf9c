"""Reads of the index of repositories and of stored packages. They never contact a registry."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from apps.oci.domain.manifest import digest_of, read_manifest
from apps.oci.domain.package import DigestMismatch, Package, unpack_layer
from apps.oci.domain.repositories import RegistryWarning, Repository, sorted_tags
from apps.oci.models import (
    IndexedRepository,
    LayerPart,
    RegistryState,
    StoredPackage,
    SuiteIdAssignment,
)
from apps.platform_settings.api import registries
from readers.archive import content_digest


def list_repositories() -> tuple[Repository, ...]:
    """Return the repositories of all registries, in the order of the settings, then by path."""
    ids = _registry_ids()
    rows = IndexedRepository.objects.filter(registry_id__in=list(ids))
    return _repositories(list(rows), ids)


def find_repository(repository: str) -> Repository | None:
    """Return a repository by `host/path`, that of the first registry which has it, or None."""
    ids = _registry_ids()
    rows = IndexedRepository.objects.filter(repository=repository)
    return next(iter(_repositories([row for row in rows if row.registry_id in ids], ids)), None)


def _registry_ids() -> dict[str, str]:
    """Return the ids as the settings spell them by those of rows, in the order of the settings."""
    return {each.registry_id.lower(): each.registry_id for each in registries()}


def _repositories(
    rows: Sequence[IndexedRepository], ids: Mapping[str, str]
) -> tuple[Repository, ...]:
    order = {key: number for number, key in enumerate(ids)}
    assigned = SuiteIdAssignment.objects.filter(repository__in=[row.repository for row in rows])
    suite_ids = dict(assigned.values_list("repository", "suite_id"))
    return tuple(
        _repository(
            row, registry_id=ids[row.registry_id], suite_id=suite_ids.get(row.repository, "")
        )
        for row in sorted(rows, key=lambda row: (order[row.registry_id], row.path))
    )


def _repository(row: IndexedRepository, *, registry_id: str, suite_id: str) -> Repository:
    return Repository(
        registry_id=registry_id,
        host=row.host,
        path=row.path,
        tags=sorted_tags(row.tags),
        version=row.version,
        digest=row.digest,
        artifact_type=row.artifact_type,
        media_types=tuple(row.media_types),
        pulled=row.pulled,
        suite_id=suite_id,
        error_code=row.error_code,
        error_detail=row.error_detail,
        seen_at=row.seen_at,
    )


def stored_digests() -> set[str]:
    """Return the digests of all stored packages; the index of the rows has them."""
    return set(StoredPackage.objects.filter(digest__gt="").values_list("digest", flat=True))


def stored_package(digest: str, *, repository: str = "", tag: str = "") -> Package | None:
    """Return a package by the digest of its manifest, or None.

    Its manifest, layer and archive are verified as when it was pulled. Raise PackageRefused
    if the stored bytes have changed.
    """
    row = StoredPackage.objects.filter(digest=digest).first()
    if row is None:
        return None
    manifest = read_manifest(bytes(row.manifest), expected=digest)
    layer = manifest.package_layer()
    parts = LayerPart.objects.filter(digest=digest).order_by("number")
    content = b"".join(bytes(part) for part in parts.values_list("content", flat=True))
    if (found := digest_of(content)) != layer.digest:
        raise DigestMismatch(f"the stored layer has the digest {found}, not {layer.digest}")
    files = unpack_layer(content)
    return Package(
        repository=repository,
        tag=tag,
        digest=digest,
        content_digest=content_digest(files),
        files=files,
        artifact_type=manifest.artifact_type,
        annotations=manifest.annotations,
        media_types=manifest.media_types,
    )


def registry_warnings() -> tuple[RegistryWarning, ...]:
    """Return the registries whose last synchronization failed, in the order of the settings."""
    ids = _registry_ids()
    rows = RegistryState.objects.filter(registry_id__in=list(ids))
    failed = {row.registry_id: row for row in rows if row.error_code}
    known = [registry_id for key, registry_id in ids.items() if key in failed]
    return tuple(
        RegistryWarning(
            registry_id=registry_id,
            code=failed[registry_id.lower()].error_code,
            detail=failed[registry_id.lower()].error_detail,
        )
        for registry_id in known
    )


def settings_digest(url: str, scope: Iterable[str], username: str) -> str:
    """Return what identifies the settings that a synchronization was made with."""
    text = "\n".join([url, username, *sorted(scope)])
    return hashlib.sha256(text.encode()).hexdigest()
