"""Catalog: what registries, the workspace and the built-in modules offer, and favorites."""

from __future__ import annotations

from apps.catalog.domain.filters import Facet, PackageFilter, facets
from apps.catalog.domain.packages import OFFICIAL, CatalogEntry
from apps.catalog.selectors import failing_registries, favorites_of, find_entry, list_entries
from apps.catalog.services import add_favorite, remove_favorite
