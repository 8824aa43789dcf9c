"""A JSON Schema with its `$ref` and `allOf` brought into one flat form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from surfaces.contract_examples.schema_checks import is_of_type
from surfaces.json_documents import JsonDocuments, Located

MAX_PARTS: Final = 200  # schemas that are joined
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties",
                "minContains")  # fmt: skip
_PLAIN: Final = ("format", "multipleOf", "uniqueItems")
_CONDITIONS: Final = ("not", "oneOf", "anyOf", "patternProperties")


@dataclass(slots=True)
class Flat:
    """What a value must suit.

    `given` are examples, defaults and constants, the preferred one first. `groups` are the
    alternatives of each oneOf and anyOf. `identity` is that of the first schema.
    """

    identity: int = 0
    types: list[str] | None = None
    properties: dict[str, list[Located]] = field(default_factory=dict)
    required: dict[str, None] = field(default_factory=dict)
    items: list[Located] = field(default_factory=list)
    prefix: list[Located] = field(default_factory=list)
    contains: list[Located] = field(default_factory=list)
    additional: list[Located] = field(default_factory=list)
    groups: list[list[Located]] = field(default_factory=list)
    keywords: dict[str, Any] = field(default_factory=dict)
    patterns: list[str] = field(default_factory=list)
    given: list[Any] = field(default_factory=list)
    discriminator: dict[str, str] = field(default_factory=dict)
    discriminators: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)
    is_constant: bool = False
    is_closed: bool = False
    is_nullable: bool = False
    has_conditions: bool = False
    is_lean: bool = False

    @property
    def type(self) -> str:
        """Return the type to make: as named, otherwise what the keywords are for."""
        if self.types:
            return next((name for name in self.types if name != "null"), "null")
        if self.properties or self.required or self.additional or "maxProperties" in self.keywords:
            return "object"
        if self.items or self.prefix or self.contains or "minItems" in self.keywords:
            return "array"
        if "minimum" in self.keywords or "maximum" in self.keywords:
            return "number"
        return "string"

    def number(self, name: str, otherwise: float) -> float:
        found = self.keywords.get(name)
        if isinstance(found, int | float) and not isinstance(found, bool):
            return found
        return otherwise

    def ordered_properties(self, hidden: str) -> Iterator[tuple[str, list[Located]]]:
        """Yield the properties, without the hidden ones."""
        for name, schemas in self.properties.items():
            if not any(isinstance(each.value, dict) and each.value.get(hidden) is True
                       for each in schemas):  # fmt: skip
                yield name, schemas

    def choosing(self, other: Flat, alternative: Located) -> Flat:
        """Return this schema together with an alternative of its first group."""
        made = Flat(identity=self.identity)
        made.join(self)
        made.groups = self.groups[1:]
        made.join(other)
        made.given = [*other.given, *self.given]
        made.is_constant = self.is_constant or other.is_constant
        reference = alternative.value.get("$ref") if isinstance(alternative.value, dict) else None
        if isinstance(reference, str):
            made._name_alternative(self.discriminators, reference)
        return made

    def _name_alternative(
        self, discriminators: list[tuple[str, Mapping[str, object]]], reference: str
    ) -> None:
        for name, mapping in discriminators:
            short = reference.rpartition("/")[2]
            known = [key for key, each in mapping.items() if each in (reference, short)]
            self.discriminator.setdefault(name, known[0] if known else short)

    def admits(self, chosen: Flat) -> bool:
        """Return whether an alternative leaves a type that a value can have."""
        return chosen.types is None or bool(chosen.types)

    def join(self, other: Flat) -> None:
        """Take in what another schema wants as well."""
        if other.types is not None:
            self.types = _common(self.types, other.types)
        for name, schemas in other.properties.items():
            self.properties.setdefault(name, []).extend(schemas)
        self.required |= other.required
        self.items += other.items
        self.prefix += other.prefix
        self.contains += other.contains
        self.additional += other.additional
        self.groups += other.groups
        self.patterns += other.patterns
        self.given += other.given
        self.discriminator |= other.discriminator
        self.discriminators += other.discriminators
        self.is_constant |= other.is_constant
        self.is_closed |= other.is_closed
        self.is_nullable |= other.is_nullable
        self.has_conditions |= other.has_conditions
        self.join_keywords(other.keywords)

    def join_keywords(self, keywords: Mapping[str, Any]) -> None:
        """Take in bounds; the tighter one counts."""
        for name, value in keywords.items():
            old = self.keywords.get(name)
            if old is None or isinstance(old, bool) or isinstance(value, bool):
                self.keywords[name] = value
            elif name in _UPPER:
                self.keywords[name] = min(old, value)
            elif name in _LOWER:
                self.keywords[name] = max(old, value)


def _common(one: list[str] | None, other: list[str]) -> list[str]:
    """Return the types that are in both lists; an integer is a number, too."""
    if one is None:
        return list(other)
    both = [name for name in one if name in other]
    if "integer" in (*one, *other) and "integer" not in both and {"number", "integer"} <= {
        *one, *other
    }:  # fmt: skip
        both.append("integer")
    return both


def flatten_schemas(documents: JsonDocuments, schemas: Sequence[Located]) -> Flat:
    """Return all of the schemas as one."""
    made = Flat()
    reader = _FlatSchemaReader(documents)
    for schema in schemas:
        reader.take(schema, made)
    made.given = [value for _, value in sorted(reader.given, key=lambda each: each[0])]
    made.identity = reader.identity
    made.has_conditions |= reader.parts < MAX_PARTS - len(schemas)
    return made


class _FlatSchemaReader:
    def __init__(self, documents: JsonDocuments) -> None:
        self.documents = documents
        self.parts = MAX_PARTS
        self.identity = 0
        self.given: list[tuple[int, Any]] = []  # with its rank

    def take(self, schema: Located, made: Flat) -> None:
        self.parts -= 1
        if self.parts < 0:
            return
        target = self.documents.resolve(schema)
        if not isinstance(target.value, dict):
            return
        self.identity = self.identity or id(target.value)
        if target.value is not schema.value and len(schema.value) > 1:
            self._own(Located({**schema.value, "$ref": None}, schema.file), made)
        self._own(target, made)

    def _own(self, at: Located, made: Flat) -> None:
        schema = at.value
        self._types(schema, made)
        self._members(at, made)
        self._take_values(schema, made)
        kept = {name: schema[name] for name in _PLAIN if schema.get(name) is not None}
        for name in (*_UPPER, *_LOWER):
            if isinstance(schema.get(name), int | float):
                kept[name] = schema[name]
        made.join_keywords(kept)
        if isinstance(schema.get("pattern"), str):
            made.patterns.append(schema["pattern"])
        made.has_conditions |= any(name in schema for name in _CONDITIONS)
        for part in at.items("allOf"):
            self.take(Located(part, at.file), made)

    def _types(self, schema: Mapping[str, object], made: Flat) -> None:
        named = schema.get("type")
        types = [each for each in (named if isinstance(named, list) else [named])
                 if isinstance(each, str)]  # fmt: skip
        if schema.get("nullable") is True or "null" in types:
            made.is_nullable = True
        if types:
            made.types = _common(made.types, types)

    def _members(self, at: Located, made: Flat) -> None:
        for name, each in at.members("properties").items():
            made.properties.setdefault(name, []).append(Located(each, at.file))
        made.required |= {name: None for name in at.items("required") if isinstance(name, str)}
        if isinstance(at.value.get("items"), dict):
            made.items.append(at.get("items"))
        if isinstance(at.value.get("contains"), dict):
            made.contains.append(at.get("contains"))
        made.prefix += [Located(each, at.file) for each in at.items("prefixItems")]
        others = at.value.get("additionalProperties")
        made.is_closed |= others is False
        if isinstance(others, dict) and others:
            made.additional.append(at.get("additionalProperties"))
        for key in ("oneOf", "anyOf"):
            if listed := [Located(each, at.file) for each in at.items(key)]:
                made.groups.append(listed)
        property_name = at.members("discriminator").get("propertyName")
        if isinstance(property_name, str):
            made.discriminators.append((property_name, at.get("discriminator").members("mapping")))

    def _take_values(self, schema: Mapping[str, object], made: Flat) -> None:
        if "const" in schema:
            made.is_constant = True
            self.given.append((0, schema["const"]))
        if "example" in schema:
            self.given.append((1, schema["example"]))
        if isinstance(examples := schema.get("examples"), list):
            self.given += [(1, each) for each in examples]
        if "default" in schema:
            self.given.append((2, schema["default"]))
        enum = schema.get("enum")
        if isinstance(enum, list) and enum:
            made.is_constant = True
            fitting = [each for each in enum if made.types is None
                       or any(is_of_type(each, name) for name in made.types)]  # fmt: skip
            self.given += [(3, each) for each in fitting[:40]]
