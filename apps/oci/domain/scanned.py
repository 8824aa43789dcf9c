"""What a registry gave: packages, and repositories as a synchronization finds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from apps.oci.domain.manifest import Manifest
from apps.oci.domain.package import Package
from apps.oci.domain.reference import Reference

SYNC_S: Final = 60.0  # for all of a registry


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledPackage:
    """What a registry gave, checked and not stored yet."""

    manifest: Manifest
    layer: bytes
    content_digest: str
    files: Mapping[str, bytes] = field(repr=False)

    def as_package(self, reference: Reference) -> Package:
        return Package(
            repository=reference.repository,
            tag=reference.tag,
            digest=self.manifest.digest,
            content_digest=self.content_digest,
            files=self.files,
            artifact_type=self.manifest.artifact_type,
            annotations=self.manifest.annotations,
            media_types=self.manifest.media_types,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRepository:
    """What the index has of a repository."""

    digest: str
    version: str
    tags: frozenset[str]
    artifact_type: str
    media_types: tuple[str, ...]
    pulled: bool
    error_code: str
    error_detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedRepository:
    """A repository as the registry has it now; `pulled` only where its content is new.

    Without `tags` it could not be read: `error_code` says why.
    """

    path: str
    tags: tuple[str, ...] = ()
    version: str = ""
    digest: str = ""
    artifact_type: str = ""
    media_types: tuple[str, ...] = ()
    is_stored: bool = False
    pulled: PulledPackage | None = field(default=None, repr=False)
    error_code: str = ""
    error_detail: str = ""

    @property
    def is_gone(self) -> bool:
        return self.error_code in ("no_tags", "not_found") and not self.tags
