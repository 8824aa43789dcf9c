"""Typed documents become the schemas of answers (decision 0065)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pytest

from apps.http.rest import page_of
from apps.http.rest.documents import document_schema, hint_schema
from kernel.wire_types import Count, Instant, keywords, one_of


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


class Wheel(TypedDict):
    size: Count


class _Named(TypedDict, total=False):
    name: str


class Car(_Named):
    """A car
    on the wire.
    """

    wheels: list[Wheel]
    spare: NotRequired[Wheel]
    built: Annotated[Instant, "by the clock of the factory"]


class Line(msgspec.Struct, omit_defaults=True):
    text: Annotated[str, "masked"]
    attempt: Count | None = None


class Plain(msgspec.Struct, rename="camel"):
    job_id: str | None = None


class Odd(TypedDict):
    made: complex


def schema_of(hint: Any) -> dict[str, Any]:
    return hint_schema(hint, lambda document: {"$ref": document.__name__})


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (bool, {"type": "boolean"}),
        (float, {"type": "number", "format": "double"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (date, {"type": "string", "format": "date"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Any, {}),
        (object, {}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Color, {"type": "string", "enum": ["red", "blue"]}),
        (Annotated[str, one_of(Color)], {"type": "string", "enum": ["red", "blue"]}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (tuple[str, ...], {"type": "array", "items": {"type": "string"}}),
        (list, {"type": "array", "items": {}}),
        (dict[str, Any], {"type": "object", "additionalProperties": {}}),
        (
            Mapping[str, Wheel],
            {"type": "object", "additionalProperties": {"$ref": "Wheel"}},
        ),
        (int | None, {"type": ["integer", "null"]}),
        (Wheel | None, {"oneOf": [{"$ref": "Wheel"}, {"type": "null"}]}),
        (
            Color | None,
            {"oneOf": [{"type": "string", "enum": ["red", "blue"]}, {"type": "null"}]},
        ),
        (int | str, {"oneOf": [{"type": "integer"}, {"type": "string"}]}),
        (Annotated[Count, "bytes"], {"type": "integer", "minimum": 0, "description": "bytes"}),
        (Annotated[Wheel, "the fifth"], {"$ref": "Wheel", "description": "the fifth"}),
        (Annotated[dict[str, object], Line], {"$ref": "Line"}),
        (Annotated[int, keywords(minimum=2)] | None, {"type": ["integer", "null"], "minimum": 2}),
    ],
)
def test_a_type_has_the_schema_of_its_json(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of(hint) == schema


def test_a_document_has_its_docstring_its_keys_and_those_of_its_bases() -> None:
    assert document_schema(Car, lambda document: {"$ref": document.__name__}) == {
        "type": "object",
        "description": "A car\non the wire.",
        "properties": {
            "name": {"type": "string"},
            "wheels": {"type": "array", "items": {"$ref": "Wheel"}},
            "spare": {"$ref": "Wheel"},
            "built": {
                "type": "string",
                "format": "date-time",
                "description": "by the clock of the factory",
            },
        },
        "required": ["wheels", "built"],
    }


def test_a_document_without_a_docstring_has_no_description() -> None:
    assert "description" not in document_schema(Wheel, lambda _document: {})


def test_a_struct_is_described_as_it_is_encoded() -> None:
    line = document_schema(Line, lambda _document: {})
    plain = document_schema(Plain, lambda _document: {})

    assert line["properties"]["attempt"] == {"type": "integer", "minimum": 0}
    assert line["required"] == ["text"]
    assert plain["properties"] == {"jobId": {"type": ["string", "null"]}}
    assert plain["required"] == ["jobId"]


def test_a_page_has_its_members_and_a_cursor_but_at_the_end() -> None:
    page = document_schema(
        page_of("CarPage", cars=list[Car], total=Count),
        lambda document: {"$ref": document.__name__},
    )

    assert list(page["properties"]) == ["cars", "total", "nextCursor"]
    assert page["required"] == ["cars", "total"]


def test_a_member_without_a_schema_is_named() -> None:
    with pytest.raises(TypeError, match=r"Odd\.made: <class 'complex'> has no schema"):
        document_schema(Odd, lambda _document: {})
