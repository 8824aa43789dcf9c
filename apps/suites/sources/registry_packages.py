"""Packages of OCI registries as suites: from memory, the store, or a registry (20 s).

A package is known by the digest of its manifest, so what is kept is never out of date. Which digest
a tag has is known from the index, or for TAG_KEPT_S after a pull.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from apps.oci import api as oci
from apps.platform_settings.api import registries
from apps.suites.domain.definition import Suite, suite_of
from apps.suites.domain.package import REGISTRY, Origin, Package, broken_files_rule
from kernel.ids import is_identifier, slug
from readers import Unreadable
from readers.yaml import read_yaml

TAG_KEPT_S: Final = 45.0
_KEPT: Final = 128  # suites in memory that only imports need
_METADATA: Final = ("metadata.yaml", "metadata.yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagePin:
    """A package by its repository, and by its digest or, if that is "", its version."""

    repository: str
    version: str
    digest: str

    def reference(self) -> str:
        end = f"@{self.digest}" if self.digest else f":{self.version}"
        return f"{self.repository}{end}"


class Packages(Protocol):
    """Where imports of packages come from."""

    def find_kept(self, wanted: PackagePin) -> Suite | None:
        """Find a package without contacting a registry."""
        ...

    def pull(self, wanted: PackagePin) -> Suite:
        """Pull a package from its registry; raise PlatformError."""
        ...


class RegistryPackages:
    """The packages of the registries of the platform settings. It is thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._suites: OrderedDict[tuple[str, str], Suite] = OrderedDict()  # repository, digest
        self._tags: dict[tuple[str, str], tuple[str, float]] = {}  # repository, tag: digest, until

    def find_kept(self, wanted: PackagePin) -> Suite | None:
        digest = wanted.digest or self._digest_of(wanted)
        if not digest:
            return None
        with self._lock:
            known = self._suites.get((wanted.repository, digest))
        if known is not None:
            return known
        package = oci.stored_package(digest)
        return None if package is None else self._keep(wanted, package)

    def pull(self, wanted: PackagePin) -> Suite:
        package = oci.pull(wanted.reference())
        if not wanted.digest:
            until = time.monotonic() + TAG_KEPT_S
            with self._lock:
                self._tags[wanted.repository, wanted.version] = package.digest, until
        return self._keep(wanted, package)

    def _digest_of(self, wanted: PackagePin) -> str:
        digest, until = self._tags.get((wanted.repository, wanted.version), ("", 0.0))
        if digest and until > time.monotonic():
            return digest
        row = oci.find_repository(wanted.repository)
        return row.digest if row and row.version == wanted.version else ""

    def _keep(self, wanted: PackagePin, package: oci.Package) -> Suite:
        row = oci.find_repository(wanted.repository)
        suite_id = (row.suite_id if row else "") or ids_of(wanted.repository, package.files)[0]
        version = wanted.version or package.tag or _tag_of(row, package.digest)
        suite = suite_of(package_of(suite_id, wanted.repository, version, package))
        with self._lock:
            self._suites[wanted.repository, package.digest] = suite
            self._suites.move_to_end((wanted.repository, package.digest))
            while len(self._suites) > _KEPT:
                self._suites.popitem(last=False)
        return suite


def is_remote(repository: str) -> bool:
    """Return whether a repository is named with its registry's host."""
    host, slash, _ = repository.partition("/")
    return bool(slash) and ("." in host or ":" in host or host == "localhost")


def package_of(
    suite_id: str,
    repository: str,
    version: str,
    package: oci.Package,
    also: tuple[str, ...] = (),
) -> Package:
    """Return the files of a pulled package under a suite id, with the first broken rule."""
    path, reason = broken_files_rule(package.files)
    return Package(
        suite_id=suite_id,
        files=package.files,
        problem=f"{path} {reason}" if reason else "",
        problem_file=path,
        origin=Origin(
            source=REGISTRY,
            provider=provider_of(repository),
            repository=repository,
            version=version,
            digest=package.digest,
            also=also,
        ),
    )


def provider_of(repository: str) -> str:
    """Return the provider of the registry that has a repository, or its host without settings."""
    host, _, path = repository.partition("/")
    named = [each for each in registries() if each.host == host and each.covers(path)]
    return next((each.provider or each.name for each in named), "") or host


def ids_of(repository: str, files: Mapping[str, bytes] | None) -> tuple[str, ...]:
    """Return the ids that a package may get, the best first (reference: control-plane 5.1)."""
    wanted = [_metadata_id(files or {}), slug(repository.partition("/")[2]), slug(repository)]
    return tuple(dict.fromkeys(each[:128] for each in wanted if is_identifier(each[:128])))


def _metadata_id(files: Mapping[str, bytes]) -> str:
    text = next((files[path] for path in _METADATA if path in files), b"").decode(errors="replace")
    try:
        root = read_yaml(text)
    except Unreadable:
        return ""
    for node in (root, root.get("metadata") if root.pairs is not None else None):
        if node is not None and node.pairs is not None:
            found = node.get("id")
            if found is not None and found.text:
                return found.text
    return ""


def _tag_of(row: oci.Repository | None, digest: str) -> str:
    return row.version if row and row.digest == digest else ""


packages: Final = RegistryPackages()
