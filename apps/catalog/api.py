"""Catalog: what registries, the workspace and the built-in modules offer, and favorites."""

from __future__ import annotations

from apps.catalog.domain.filters import Facet, PackageFilter, facets
from apps.catalog.domain.packages import (
    OFFICIAL,
    CatalogEntry,
    CatalogPackage,
    CatalogWarning,
    PackageDocument,
    package_key,
)
from apps.catalog.selectors import (
    PackageNotFound,
    failing_registries,
    favorites_of,
    find_entry,
    get_package,
    list_entries,
    list_packages,
)
from apps.catalog.services import add_favorite, remove_favorite

__all__ = [
    "OFFICIAL",
    "CatalogEntry",
    "CatalogPackage",
    "CatalogWarning",
    "Facet",
    "PackageDocument",
    "PackageFilter",
    "PackageNotFound",
    "add_favorite",
    "facets",
    "failing_registries",
    "favorites_of",
    "find_entry",
    "get_package",
    "list_entries",
    "list_packages",
    "package_key",
    "remove_favorite",
]
