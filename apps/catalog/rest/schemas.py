"""Answers of the catalog that the views make, and its parameters (reference: control-plane 5.1)."""

from __future__ import annotations

from typing import Any, Final, TypedDict

from drf_spectacular.utils import OpenApiParameter

from apps.catalog.domain import packages
from apps.http.rest import page_of
from kernel.wire_types import Count

KINDS: Final = (packages.SUITE, packages.STDLIB)


class Favorites(TypedDict):
    packageIds: list[str]


class FavoriteMark(TypedDict):
    packageId: str
    starred: bool


CatalogPage: Final = page_of(
    "CatalogPage",
    packages=list[packages.CatalogPackage],
    total=Count,
    warnings=list[packages.CatalogWarning],
)


def query(name: str, description: str, **more: Any) -> OpenApiParameter:
    return OpenApiParameter(name, str, OpenApiParameter.QUERY, description=description, **more)


LIST_PARAMETERS: Final = [
    query("kind", "suite or stdlib", enum=KINDS),
    query("provider", "the package's provider, such as Workspace"),
    query("module", "one of the package's modules"),
    OpenApiParameter("starred", bool, OpenApiParameter.QUERY, description="favorites only"),
    query("q", "occurs in title, repository, description or a module"),
    OpenApiParameter("limit", int, OpenApiParameter.QUERY, description="1 to 200, default 50"),
    query("cursor", "`nextCursor` of the page before"),
]
