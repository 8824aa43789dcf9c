"""Reads of the catalog: the packages, a reader's favorites, registries that fail.

No read contacts a registry: what registries offer is the stored index, which is refreshed in the
background.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Final

from apps.accounts.api import Principal
from apps.catalog.domain.filters import PackageFilter
from apps.catalog.domain.packages import (
    CatalogEntry,
    CatalogPackage,
    CatalogWarning,
    known_suite,
    merge_packages,
)
from apps.catalog.models import Favorite
from apps.oci import api as oci
from apps.operations.api import CachedReads
from apps.platform_settings import api as platform_settings
from apps.suites import api as suites
from kernel.errors import NotFound
from kernel.version import VERSION

_packages: Final = CachedReads("catalog")
_favorites: Final = CachedReads("favorites")


class PackageNotFound(NotFound):
    code = "package_not_found"


def list_entries() -> list[CatalogEntry]:
    """Return every package by kind and title; do not change them.

    The result is kept as long as the stored index, the registries of the settings, the suites and
    the modules that it was made from are the same.
    """
    providers = {each.registry_id: each.provider for each in platform_settings.registries()}
    known = sorted(  # those of registries last: a repository prefers an own suite
        map(known_suite, suites.list_suites()), key=lambda suite: (suite.is_remote, suite.suite_id)
    )
    modules = suites.built_in_modules()
    made_from = [providers, [*map(asdict, known)], VERSION, [each.name for each in modules]]
    key = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()
    return _packages.get(
        key, lambda: merge_packages(oci.list_repositories(), providers, known, modules)
    )


def find_entry(package_id: str) -> CatalogEntry:
    """Return a package; raise PackageNotFound."""
    for entry in list_entries():
        if entry["package"]["id"] == package_id:
            return entry
    raise PackageNotFound(f"there is no package {package_id[:200]!r} in the catalog")


def list_packages(principal: Principal, wanted: PackageFilter) -> list[CatalogPackage]:
    """Return the packages that a filter accepts, as on the wire, by kind and title."""
    favorites = favorites_of(principal)
    entries = list_entries()
    return [document(each, favorites) for each in entries if wanted.accepts(each, favorites)]


def get_package(principal: Principal, package_id: str) -> CatalogPackage:
    """Return a package as on the wire; raise PackageNotFound."""
    return document(find_entry(package_id), favorites_of(principal))


def document(entry: CatalogEntry, favorites: frozenset[str]) -> CatalogPackage:
    package = entry["package"]
    return {**package, "starred": package["id"] in favorites}


def favorites_of(principal: Principal) -> frozenset[str]:
    """Return the ids of the reader's favorites, also of packages that are gone."""
    own = Favorite.objects.filter(user_id=principal.user_id)

    def read() -> list[str]:
        return sorted(own.values_list("package_id", flat=True))

    return frozenset(_favorites.get(str(principal.user_id), read))


def failing_registries() -> list[CatalogWarning]:
    """Return the registries whose last sync failed."""
    return [
        {"registryId": each.registry_id, "code": each.code, "detail": each.detail}
        for each in oci.registry_warnings()
    ]
