"""REST of the catalog (reference: control-plane 5.1)."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api import Principal
from apps.catalog import selectors, services
from apps.catalog.domain.filters import PackageFilter
from apps.catalog.domain.packages import CatalogPackage, package_key
from apps.catalog.rest import schemas
from apps.http.rest import (
    PAGING,
    StrictViewSet,
    choice_parameter,
    conditional_response,
    flag_parameter,
    paginate,
)


class PackageViewSet(StrictViewSet):
    lookup_url_kwarg = "package_id"
    query_parameters: ClassVar[Any] = {
        "list": PAGING | {"kind", "provider", "module", "starred", "q"}
    }

    @extend_schema(
        operation_id="catalog_packages_list",
        parameters=schemas.LIST_PARAMETERS,
        responses=schemas.CatalogPage,
    )
    def list(self, request: Request) -> Response:
        query = request.query_params
        wanted = PackageFilter(
            kind=choice_parameter(request, "kind", schemas.KINDS),
            provider=query.get("provider", ""),
            module=query.get("module", ""),
            starred=flag_parameter(request, "starred"),
            words=query.get("q", ""),
        )
        found = selectors.list_packages(principal_of(request), wanted)
        page = paginate(request, found, key=package_key)
        warnings = selectors.failing_registries()
        return Response(page.as_dict("packages", page.items, total=len(found), warnings=warnings))

    @extend_schema(
        operation_id="catalog_packages_detail",
        responses={200: CatalogPackage, 304: None},
    )
    def retrieve(self, request: Request, package_id: str) -> Response:
        return conditional_response(
            request, selectors.get_package(principal_of(request), package_id)
        )


class FavoriteViewSet(StrictViewSet):
    """The caller's favorites; the registries do not learn of them."""

    lookup_url_kwarg = "package_id"

    @extend_schema(operation_id="catalog_favorites_list", responses=schemas.Favorites)
    def list(self, request: Request) -> Response:
        answer: schemas.Favorites = {
            "packageIds": sorted(selectors.favorites_of(principal_of(request)))
        }
        return Response(answer)

    @extend_schema(
        operation_id="catalog_favorites_add", request=None, responses=schemas.FavoriteMark
    )
    def add(self, request: Request, package_id: str) -> Response:
        services.add_favorite(principal_of(request), package_id)
        return _mark_response(package_id, is_starred=True)

    @extend_schema(
        operation_id="catalog_favorites_remove",
        request=None,
        responses={200: schemas.FavoriteMark},
    )
    def destroy(self, request: Request, package_id: str) -> Response:
        services.remove_favorite(principal_of(request), package_id)
        return _mark_response(package_id, is_starred=False)


def _mark_response(package_id: str, *, is_starred: bool) -> Response:
    answer: schemas.FavoriteMark = {"packageId": package_id, "starred": is_starred}
    return Response(answer)


def principal_of(request: Request) -> Principal:
    """Return the caller: only signed-in ones come here."""
    return cast("Principal", request.user)
