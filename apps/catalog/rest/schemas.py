"""The answers of the catalog for the OpenAPI (reference: control-plane 5.1)."""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter, extend_schema_serializer
from rest_framework import serializers

from apps.catalog.domain import packages

Text = serializers.CharField
Flag = serializers.BooleanField
Number = serializers.IntegerField
Texts = serializers.ListField
KINDS: Final = (packages.SUITE, packages.STDLIB)
STATUSES: Final = (packages.OFFICIAL, packages.VERIFIED, packages.INSTALLED, packages.LISTED)


class Shape(serializers.Serializer[Any]):
    """An answer; nothing is validated by it."""


class CatalogPackage(Shape):
    """A package; `suiteId` where a suite of that repository is known."""

    id = Text()
    kind = serializers.ChoiceField(choices=KINDS)
    title = Text()
    repository = Text(help_text="host/path of a registry's")
    owner = Text()
    provider = Text()
    version = Text(allow_blank=True)
    tags = Texts(child=Text(), help_text="`latest` first, then descending")
    description = Text(allow_blank=True)
    modules = Texts(child=Text())
    status = serializers.ChoiceField(choices=STATUSES)
    score = Number(min_value=0, max_value=100)
    pullCommand = Text(required=False, help_text="absent for built-in modules: nothing to pull")
    forkCommand = Text(required=False, help_text="absent for built-in modules: nothing to copy")
    inspectable = Flag(help_text="whether `GET /suites/{suiteId}` can serve it")
    starred = Flag()
    suiteId = Text(required=False)
    registryId = Text(required=False)
    digest = Text(required=False, help_text="of the manifest of `version`")
    error = Text(required=False, help_text="why its content cannot be had")


class CatalogWarning(Shape):
    """A registry whose last sync failed; its last good content is shown."""

    registryId = Text()
    code = Text()
    detail = Text()


@extend_schema_serializer(many=False)
class CatalogPage(Shape):
    packages = CatalogPackage(many=True)
    total = Number(min_value=0)
    nextCursor = Text(required=False)
    warnings = CatalogWarning(many=True)


@extend_schema_serializer(many=False)
class Favorites(Shape):
    packageIds = Texts(child=Text())


class FavoriteMark(Shape):
    packageId = Text(allow_blank=True)
    starred = Flag()


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
