"""The OpenAPI schemas of answers, from the typed documents that builders return (decision 0065).

A view names the TypedDict of its answer: `@extend_schema(responses={200: RunDetail, 304: None})`.
It becomes a component under its own name, and so do the documents inside it. A mapping that is the
JSON of a struct says so: `Annotated[dict[str, object], EventRecord]`.
"""

from __future__ import annotations

import inspect
import types
from collections import abc
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from enum import Enum
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Required,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from uuid import UUID

import msgspec
from drf_spectacular.extensions import (
    OpenApiSerializerExtension,
    OpenApiSerializerFieldExtension,
)
from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers

Schema = dict[str, Any]  # or the whole description, which has such
Reference = Callable[[type], Schema]  # the schema that refers to a document's component
Member = tuple[str, Any, bool]  # name, type, whether it is always there
_LIMITS: Final = {  # of msgspec, which checks them
    "ge": "minimum", "le": "maximum", "min_length": "minLength", "max_length": "maxLength",
    "pattern": "pattern",
}  # fmt: skip
_NULL: Final[Schema] = {"type": "null"}
_PLAIN: Final[Mapping[Any, Schema]] = {
    Any: {},
    object: {},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number", "format": "double"},
    str: {"type": "string"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    UUID: {"type": "string", "format": "uuid"},
    type(None): _NULL,
}
_LISTS: Final = (
    list, tuple, set, frozenset,
    abc.Sequence, abc.Collection, abc.Iterable, abc.Set,
)  # fmt: skip
_MAPS: Final = (dict, abc.Mapping, abc.MutableMapping)
_typed_dict: Any = TypedDict  # mypy calls it with literals only


def is_document(target: Any) -> bool:
    """Return whether this class declares a document: a TypedDict, or a struct of msgspec."""
    return is_typeddict(target) or (inspect.isclass(target) and issubclass(target, msgspec.Struct))


def document_schema(document: Any, reference: Reference) -> Schema:
    """Return the schema of a document; its docstring is the description.

    Raises TypeError for a member of a type that has no schema.
    """
    required: list[str] = []
    properties: dict[str, Schema] = {}
    members = _keys(document) if is_typeddict(document) else _fields(document)
    for name, hint, is_required in members:
        if is_required:
            required.append(name)
        try:
            properties[name] = hint_schema(hint, reference)
        except TypeError as error:
            raise TypeError(f"{document.__qualname__}.{name}: {error}") from None
    schema: Schema = {"type": "object"}
    if text := document.__dict__.get("__doc__"):
        schema["description"] = inspect.cleandoc(text)
    return schema | {"properties": properties} | ({"required": required} if required else {})


def _keys(document: Any) -> Iterator[Member]:
    # without names of its own, a key that comes of a base is read in the module of that base
    for name, hint in get_type_hints(document, localns={}, include_extras=True).items():
        kind = get_origin(hint)
        # `__required_keys__` misses NotRequired where annotations are postponed
        is_required = kind is not NotRequired and name in document.__required_keys__
        yield name, hint, kind is Required or is_required


def _fields(document: type[msgspec.Struct]) -> Iterator[Member]:
    """Yield the fields of a struct as it is encoded: with `omit_defaults` no None is written."""
    omits = document.__struct_config__.omit_defaults
    for each in msgspec.structs.fields(document):
        hint = each.type
        if omits and each.default is None:
            hint = Union[tuple(one for one in get_args(hint) if one is not type(None))]  # noqa: UP007
        yield each.encode_name, hint, each.required or not omits


def hint_schema(hint: Any, reference: Reference) -> Schema:
    """Return the schema of a type of a member. Raises TypeError for one that has none."""
    if get_origin(hint) in (Annotated, NotRequired, Required):
        schema = hint_schema(get_args(hint)[0], reference)
        for each in getattr(hint, "__metadata__", ()):
            schema = reference(each) if is_document(each) else schema | _keywords(each)
        return schema
    if is_document(hint):
        return reference(hint)
    if inspect.isclass(hint) and hint in _PLAIN:
        return dict(_PLAIN[hint])
    if values := _choices(hint):
        return {**_PLAIN[type(values[0])], "enum": values}
    return _composite_schema(hint, reference)


def _composite_schema(hint: Any, reference: Reference) -> Schema:
    kind, args = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, types.UnionType):
        return _union_schema([hint_schema(each, reference) for each in args])
    if kind in _LISTS:
        return {"type": "array", "items": hint_schema(args[0] if args else Any, reference)}
    if kind in _MAPS:
        value = hint_schema(args[1] if args else Any, reference)
        return {"type": "object", "additionalProperties": value}
    raise TypeError(f"{hint!r} has no schema")


def _keywords(metadata: Any) -> Schema:
    """Return what `Annotated` adds: a description, keywords of `kernel.wire_types`, or limits."""
    if isinstance(metadata, str):
        return {"description": metadata}
    if isinstance(metadata, msgspec.Meta):
        limits = {name: getattr(metadata, limit) for limit, name in _LIMITS.items()}
        return {name: limit for name, limit in limits.items() if limit is not None}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in dict(metadata).items()
    }


def _choices(hint: Any) -> list[Any]:
    """Return the values of a Literal or an enumeration, which are of one type; else nothing."""
    if inspect.isclass(hint) and issubclass(hint, Enum):
        return [each.value for each in hint]
    return list(get_args(hint)) if get_origin(hint) is Literal else []


def _union_schema(options: list[Schema]) -> Schema:
    others = [each for each in options if each != _NULL]
    if len(others) == 1 and isinstance(others[0].get("type"), str) and "enum" not in others[0]:
        return {**others[0], "type": [others[0]["type"], "null"]}
    return {"oneOf": options}


def page_of(name: str, **members: Any) -> type:
    """Return the document of one page of a list: its members, and where the next page begins.

    They are those that `Page.as_dict` is called with: `page_of("Runs", runs=list[Run], total=int)`.
    """
    members["nextCursor"] = NotRequired[str]
    page: type = _typed_dict(name, members)
    return page


class DocumentField(serializers.Field[Any, Any, Any, Any]):
    """A member of a serializer that a document describes: of an answer that widens a request."""

    def __init__(self, document: type, **options: Any) -> None:
        super().__init__(**options)
        self.document = document


class DocumentFieldDescription(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = DocumentField

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> Schema:
        return hint_schema(self.target.document, _reference_of(auto_schema))


class DocumentDescription(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Lets drf-spectacular take a document where it expects a serializer."""

    @classmethod
    def _matches(cls, target: Any) -> bool:
        return is_document(target)

    def get_name(self, auto_schema: AutoSchema, direction: str) -> str:
        return str(self.target.__name__)

    def map_serializer(self, auto_schema: AutoSchema, direction: str) -> Schema:
        return document_schema(self.target, _reference_of(auto_schema))


class DocumentSchema(AutoSchema):
    """Describes each answer as it is declared: no answer of this API is a bare list."""

    def _is_list_view(self, serializer: Any = None) -> bool:
        return False


def _reference_of(auto_schema: AutoSchema) -> Reference:
    def reference(document: type) -> Schema:
        component: Schema = auto_schema.resolve_serializer(document, "response").ref
        return component

    return reference
