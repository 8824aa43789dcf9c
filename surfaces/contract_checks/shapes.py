"""What a schema says of texts that stand for values: types, members, items, names in XML."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

from surfaces.json_documents import JsonDocuments, Located

_MAX_PARTS: Final = 100  # of a schema, by allOf, anyOf and oneOf
_MAX_NUMBER: Final = 300  # characters
_NUMBER: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d{1,3})?\Z", re.ASCII)
_BOOLEANS: Final = {"true": True, "false": False}
_NAMES: Final = {bool: "boolean", int: "integer", float: "number", str: "string"}


class Shape:
    """A schema with the parts that hold at the same place; what is below is read when asked for."""

    def __init__(self, documents: JsonDocuments, place: Located) -> None:
        self._documents = documents
        self._parts = list(_parts(documents, place))

    @cached_property
    def types(self) -> frozenset[str]:
        """The types that a value may have; none if the schema does not say."""
        found: set[str] = set()
        for part in self._parts:
            named = part.value.get("type")
            found.update(each for each in (named if isinstance(named, list) else [named])
                         if isinstance(each, str))  # fmt: skip
            if part.value.get("nullable") is True:
                found.add("null")
            if part.members("properties"):
                found.add("object")
            if "items" in part.value:
                found.add("array")
        if not found - {"null"}:
            found.update(
                _NAMES.get(type(each), "null")
                for part in self._parts
                for each in part.items("enum")
            )
        return frozenset(found)

    @cached_property
    def properties(self) -> dict[str, Shape]:
        return {
            name: Shape(self._documents, Located(each, part.file))
            for part in self._parts
            for name, each in part.members("properties").items()
        }

    @cached_property
    def items(self) -> Shape:
        found = next((part.get("items") for part in self._parts if "items" in part.value), None)
        return Shape(self._documents, found or Located(None, ""))

    def xml(self, name: str) -> Any:
        """Return a member of `xml`, None where there is none."""
        found = (part.get("xml", name).value for part in self._parts)
        return next((each for each in found if each is not None), None)

    @cached_property
    def _is_text(self) -> bool:
        return not ({"integer", "number", "boolean", "null"} & self.types)

    def value(self, text: str) -> Any:
        """Return the value that a text spells, if the schema may want it; else the text."""
        if self._is_text:
            return text
        types = self.types
        if "integer" in types or "number" in types:
            number = _number(text)
            if number is not None:
                return number
        if "boolean" in types and text in _BOOLEANS:
            return _BOOLEANS[text]
        if "null" in types and text in ("", "null") and not ("string" in types and not text):
            return None
        return text


def _number(text: str) -> float | None:
    if len(text) > _MAX_NUMBER or not (found := _NUMBER.match(text)):
        return None
    if found[2] is None and found[3] is None:
        return int(text)
    value = float(text)
    return value if math.isfinite(value) else None


def _parts(documents: JsonDocuments, place: Located) -> Iterator[Located]:
    waiting, left = [place], _MAX_PARTS
    while waiting and left:
        left -= 1
        here = documents.resolve(waiting.pop())
        if isinstance(here.value, dict):
            yield here
            for key in ("allOf", "anyOf", "oneOf"):
                waiting += [Located(each, here.file) for each in here.items(key)[:_MAX_PARTS]]
