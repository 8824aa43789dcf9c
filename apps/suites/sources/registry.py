"""Suites that registries offer: those that were pulled, others on demand.

(reference: control-plane 5.1, 5.2)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import ClassVar, Final

from django.db import connection

from apps.oci import api as oci
from apps.operations.api import generation
from apps.platform_settings.api import registries
from apps.suites.domain.package import REGISTRY, TOPOLOGY_FILE, Origin, Package
from apps.suites.sources import SourcedSuite, sources
from apps.suites.sources.registry_packages import ids_of, is_remote, package_of, provider_of
from kernel.errors import PlatformError
from kernel.ids import slug

# Their generations rise with every change of the index and packages, and of the registries.
TOPICS: Final = ("catalog", "platform")


@sources.register("registry")
class RegistrySource:
    """Lists the chosen version of each repository whose content is stored; contacts nobody."""

    rank: ClassVar[int] = 2
    reads_store: ClassVar[bool] = True

    def __init__(self) -> None:
        self._kept: tuple[list[int], Sequence[SourcedSuite]] | None = None
        # by repository and digest; empty for packages that are no suites
        self._candidates: dict[tuple[str, str], tuple[str, ...]] = {}

    def suites(self) -> Sequence[SourcedSuite]:
        number = [generation(topic) for topic in TOPICS]
        kept = self._kept
        if kept and kept[0] == number and not connection.in_atomic_block:
            return kept[1]
        named = {each.registry_id: each.provider or each.name for each in registries()}
        found = [
            each
            for row, also in _packages(oci.list_repositories())
            if (each := self._source_row(row, named.get(row.registry_id, ""), also)) is not None
        ]
        if not connection.in_atomic_block:  # it may see what is never committed
            self._kept = number, found
        return found

    def token(self) -> Hashable:
        return tuple(generation(topic) for topic in TOPICS)

    def find(self, reference: str) -> SourcedSuite | None:
        named = reference if is_remote(reference) else self._find_repository(reference)
        if not named:
            return None
        try:
            wanted = oci.parse_reference(named)
        except PlatformError:
            return None
        if not (wanted.tag or wanted.digest):
            row = oci.find_repository(wanted.repository)
            if row is None or not row.version:
                return None
            wanted = oci.parse_reference(f"{wanted.repository}:{row.version}")
        return _pull(wanted)

    def _find_repository(self, suite_id: str) -> str:
        """Return the repository that has or would get this id.

        Its content is not stored yet, or it is the package of a repository that is listed.
        """
        for row in oci.list_repositories():
            if suite_id in (row.suite_id, *ids_of(row.repository, None)):
                return row.repository
        return ""

    def _source_row(
        self, row: oci.Repository, provider: str, also: tuple[str, ...]
    ) -> SourcedSuite | None:
        if row.artifact_type == oci.MODULE_TYPE:
            return None
        if not row.pulled:
            is_refused = row.error_code == "package_invalid"
            return _refuse(row, row.error_detail) if is_refused else None
        try:
            ids = (row.suite_id,) if row.suite_id else self._ids(row)
        except PlatformError as error:  # stored bytes that have changed: of this suite alone
            return _refuse(row, error.detail)
        if not ids:
            return None
        assign = None if row.suite_id else partial(oci.assign_suite_id, row.repository)
        return SourcedSuite(
            key=row.repository,
            ids=(*ids, slug(row.repository)),
            stamp=lambda: (row.digest, row.version, provider, also),
            read=partial(_read, row=row, also=also),
            keep_id=assign,
            may_be=lambda names: row.repository in names,
        )

    def _ids(self, row: oci.Repository) -> tuple[str, ...]:
        """Return the ids that the package may get, none if it is not a suite."""
        place = row.repository, row.digest
        if place not in self._candidates:
            package = oci.stored_package(row.digest)
            files = package.files if package else {}
            is_suite = row.artifact_type == oci.SUITE_TYPE or TOPOLOGY_FILE in files
            self._candidates[place] = ids_of(row.repository, files) if is_suite else ()
        return self._candidates[place]


def _pull(wanted: oci.Reference) -> SourcedSuite:
    package = oci.pull(wanted)
    row = oci.find_repository(wanted.repository)
    known = (row.suite_id,) if row and row.suite_id else ()
    version = wanted.tag or (row.version if row and row.digest == package.digest else "")
    return SourcedSuite(
        key=f"{wanted.repository}@{package.digest}",
        ids=(*known, *ids_of(wanted.repository, package.files)),
        stamp=lambda: package.digest,
        read=lambda suite_id: package_of(suite_id, wanted.repository, version, package),
        listed_as=wanted.repository,
    )


def _packages(
    rows: Sequence[oci.Repository],
) -> Iterator[tuple[oci.Repository, tuple[str, ...]]]:
    """Yield each package once, with the other places that have just the same content.

    Of two repositories of one name the first registry in the settings wins.
    """
    named = {row.repository: row for row in reversed(rows)}
    places: dict[str, list[oci.Repository]] = {}
    for row in rows:
        if named[row.repository] is row:
            places.setdefault(row.digest if row.pulled else row.repository, []).append(row)
    for first, *others in places.values():
        yield first, tuple(f"{row.repository}:{row.version}" for row in others)


def _read(suite_id: str, row: oci.Repository, also: tuple[str, ...]) -> Package:
    try:
        package = oci.stored_package(row.digest)
    except PlatformError as error:
        return _broken_package(suite_id, row, error.detail)
    if package is None:
        return _broken_package(suite_id, row, "the stored package was removed meanwhile")
    return package_of(suite_id, row.repository, row.version, package, also)


def _refuse(row: oci.Repository, reason: str) -> SourcedSuite | None:
    """Return a suite with the reason why it is not available, if it was or says it is one."""
    if not row.suite_id and row.artifact_type != oci.SUITE_TYPE:
        return None
    problem = reason or "the package was refused"
    return SourcedSuite(
        key=row.repository,
        ids=(row.suite_id, slug(row.repository)) if row.suite_id else ids_of(row.repository, None),
        stamp=lambda: (row.digest, row.version, problem),
        read=lambda suite_id: _broken_package(suite_id, row, problem),
    )


def _broken_package(suite_id: str, row: oci.Repository, problem: str) -> Package:
    origin = Origin(
        source=REGISTRY,
        provider=provider_of(row.repository),
        repository=row.repository,
        version=row.version,
        digest=row.digest,
    )
    return Package(suite_id=suite_id, files={}, problem=problem, origin=origin)
