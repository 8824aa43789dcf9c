"""Samples of JSON Schemas in contracts, with `$ref` within and between the files of a suite."""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote

from readers.json import unescape_pointer
from readers.tree import Kind, Tree
from surfaces.contracts import Sources
from surfaces.trees import NOTHING, child, is_small, items, member, members, text_of

MAX_DEPTH: Final = 8
MAX_VALUES: Final = 200  # of one sample
MAX_REFERENCES: Final = 32  # that lead to one another
_MAX_REFERENCE: Final = 1_000  # characters
_MAX_PARTS: Final = 20  # of allOf, and examples to choose from
_EMPTY: Final[dict[str, object]] = {
    "integer": 0, "number": 0, "boolean": False, "null": None, "string": "string",
}  # fmt: skip
_FORMATS: Final = {
    "uuid": "00000000-0000-4000-8000-000000000000",
    "date": "2024-01-31",
    "date-time": "2024-01-31T12:00:00Z",
    "email": "ada@example.org",
    "uri": "https://example.org",
    "byte": "cGFydGl0YQ==",
}


@dataclass(frozen=True, slots=True)
class SchemaPlace:
    """A value of a document, with the file that its references start from."""

    tree: Tree
    file: str

    def get(self, *names: str) -> SchemaPlace:
        tree: Tree | None = self.tree
        for name in names:
            tree = None if tree is None else tree.get(name)
        return SchemaPlace(tree or NOTHING, self.file)


class References:
    """Follows `$ref`; a reference to a URL, or to nothing, leads to an empty value."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources

    def resolve(self, place: SchemaPlace) -> SchemaPlace:
        for _ in range(MAX_REFERENCES):
            reference = text_of(place.tree.get("$ref"))
            if not reference or len(reference) > _MAX_REFERENCE:
                return place
            place = self._target(reference, place.file)
        return SchemaPlace(NOTHING, place.file)

    def _target(self, reference: str, file: str) -> SchemaPlace:
        named, _, pointer = reference.partition("#")
        if "://" in named:
            return SchemaPlace(NOTHING, file)
        if named:
            file = posixpath.normpath(posixpath.join(posixpath.dirname(file), unquote(named)))
        if file not in self.sources.files:
            return SchemaPlace(NOTHING, file)
        tree: Tree | None = self.sources.tree(file)
        for part in pointer.split("/")[1:]:
            key = unescape_pointer(unquote(part))
            tree = None if tree is None else child(tree, key)
        return SchemaPlace(tree or NOTHING, file)

    def sample(self, place: SchemaPlace) -> Any:
        """Return a value that suits a schema: its examples, defaults, or the least of its type."""
        return _Sampler(self).of(place, 0)


class _Sampler:
    def __init__(self, references: References) -> None:
        self.references = references
        self.left = MAX_VALUES

    def of(self, place: SchemaPlace, depth: int) -> Any:
        place = self.references.resolve(place)
        self.left -= 1
        self.references.sources.sampled -= 1
        if self.references.sources.sampled < 0:
            return None
        given = _given_value(place.tree)
        if given is not None and is_small(given):
            return given.plain()
        if self.left <= 0 or depth >= MAX_DEPTH:
            return None
        for several in ("allOf", "oneOf", "anyOf"):
            if place.tree.get(several):
                return self._several(place, several, depth)
        return self._by_type(place, depth)

    def _several(self, place: SchemaPlace, key: str, depth: int) -> Any:
        parts = [SchemaPlace(part, place.file) for part in items(place.tree.get(key))[:_MAX_PARTS]]
        made = [self.of(part, depth + 1) for part in (parts if key == "allOf" else parts[:1])]
        objects = [each for each in made if isinstance(each, dict)]
        if place.tree.get("properties"):
            objects.append(self._object(place, depth))
        if objects:
            return {name: value for each in objects for name, value in each.items()}
        return made[0] if made else None

    def _by_type(self, place: SchemaPlace, depth: int) -> Any:
        name = _type(place.tree)
        if name == "object":
            return self._object(place, depth)
        if name == "array":
            return [self.of(place.get("items"), depth + 1)] if place.tree.get("items") else []
        if name == "string":
            return _FORMATS.get(text_of(place.tree.get("format")), "string")
        least = place.tree.get("minimum")
        if name in ("integer", "number") and least is not None and least.kind is Kind.NUMBER:
            return least.plain()
        return _EMPTY.get(name, "string")

    def _object(self, place: SchemaPlace, depth: int) -> dict[str, object]:
        made: dict[str, object] = {}
        for name, schema in members(place.tree.get("properties")):
            if self.left <= 0:
                break
            if text_of(schema.get("readOnly")) != "true":
                made[name] = self.of(SchemaPlace(schema, place.file), depth + 1)
        return made


def _given_value(schema: Tree) -> Tree | None:
    for name in ("const", "example", "default"):
        if (found := schema.get(name)) is not None:
            return found
    for name in ("examples", "enum"):
        listed = schema.get(name)
        if listed is not None and listed.items:
            return listed.items[0]
    return None


def _type(schema: Tree) -> str:
    named = [text_of(each) for each in items(schema.get("type"))]
    if named:
        return next((name for name in named if name != "null"), "null")
    if schema.get("properties") is not None:
        return "object"
    return "array" if schema.get("items") is not None else "string"


def is_json(media_type: str) -> bool:
    """Return whether a media type, with or without parameters, is one of JSON."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind.endswith(("/json", "+json"))


def as_text(value: Any) -> str:
    """Return a value as a parameter carries it."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ",".join(map(as_text, value))
    return json.dumps(value, ensure_ascii=False)


def media_sample(references: References, media: SchemaPlace) -> Any:
    """Return the sample of a media type or message: its own example, otherwise of its schema."""
    own = member(media.tree, "example")
    if own is not None and is_small(own):
        return own.plain()
    for _, example in islice(members(media.tree.get("examples")), _MAX_PARTS):
        found = references.resolve(SchemaPlace(example, media.file)).get("value").tree
        if found is not NOTHING and is_small(found):
            return found.plain()
    if media.tree.get("schema") is None:
        return None
    return references.sample(media.get("schema"))
