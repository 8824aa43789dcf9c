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
    failing_registries,
    favorites_of,
    find_entry,
    get_package,
    list_entries,
    list_packages,
)
from apps.catalog.services import add_favorite, remove_favorite
