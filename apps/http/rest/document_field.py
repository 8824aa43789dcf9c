"""A member of a response whose shape a TypedDict declares, for the API's description."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import resolve_type_hint
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers


class DocumentField(serializers.Field[Any, Any, Any, Any]):
    """Describes a member by the TypedDict that selectors return, so that it is declared once.

    Optional keys belong to a base with `total=False`: `NotRequired` is not seen where annotations
    are postponed.
    """

    def __init__(self, document: type, **options: Any) -> None:
        super().__init__(**options)
        self.document = document

    def to_internal_value(self, data: Any) -> Any:
        return data

    def to_representation(self, value: Any) -> Any:
        return value


def described_document(document: type, description: str = "") -> OpenApiResponse:
    """Return the description of a response whose body is this TypedDict."""
    schema: dict[str, object] = resolve_type_hint(document)  # type: ignore[no-untyped-call]
    return OpenApiResponse(schema, description=description)


class DocumentFieldDescription(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = DocumentField

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, object]:
        schema: dict[str, object] = resolve_type_hint(self.target.document)  # type: ignore[no-untyped-call]
        return schema
