"""Schemas of contracts, compiled: jsonschema-rs decides, and a bounded walk says what is wrong.

A schema of OpenAPI 3.0 or 3.1 is written anew as one of JSON Schema 2020-12 with all that its
references lead to, without what only describes. Nothing is read from a network. A keyword whose
value makes no sense, or whose pattern the linear-time engine does not take, is left out and told.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError

from kernel.errors import FieldErrorDocument
from readers.json import escape_pointer
from surfaces.contract_examples.schema_checks import Checks
from surfaces.json_documents import JsonDocuments, Located

Hidden = Literal["readOnly", "writeOnly"]  # members that a request, or a response, does not have
MAX_NODES: Final = 10_000  # schemas that one schema leads to
MAX_DEPTH: Final = 100
MAX_VISITS: Final = 2**16  # of one value, by parts of a schema that overlap
MAX_WORK: Final = 2**26  # visits times bytes of a body; a larger one is not checked
MAX_MATCHED: Final = 64 * 2**10  # bytes of a body whose texts patterns see
MAX_ERRORS: Final = 50
_STEPS: Final = 2_000  # schemas that the walk looks at
_PATTERN_SIZE: Final = 4 * 2**20  # bytes of a compiled one
_LINEAR: Final = RegexOptions(size_limit=_PATTERN_SIZE, dfa_size_limit=_PATTERN_SIZE)
_ROOT: Final = "schema"
_TYPES: Final = frozenset(
    ("object", "array", "string", "boolean", "null", "number", "integer")
)  # fmt: skip
_MAX_FLOAT: Final = 3.4028234663852886e38
_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "float": (-_MAX_FLOAT, _MAX_FLOAT),
}
_FORMATS: Final = frozenset((
    "date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri",
    "uri-reference", "uri-template", "uuid", "json-pointer", "relative-json-pointer", "byte",
))  # fmt: skip
_SCHEMAS: Final = (
    "not", "if", "then", "else", "items", "additionalProperties", "contains", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS: Final = ("properties", "patternProperties", "dependentSchemas")
_ALTERNATIVE: Final = ("properties", "prefixItems")  # one of them sees a value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains",
                  "minProperties", "maxProperties")  # fmt: skip
_KEYWORDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(_COUNTS, _is_count),
    **dict.fromkeys(("minimum", "maximum"), _is_number),
    "const": lambda _value: True,
    "enum": lambda value: isinstance(value, list),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "uniqueItems": lambda value: isinstance(value, bool),
    "required": lambda value: isinstance(value, list),
    "dependentRequired": lambda value: (
        isinstance(value, dict) and all(_is_texts(each) for each in value.values())
    ),
}


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_base64(text: str) -> bool:
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return False
    return len(text) % 4 == 0


def _compile(schema: Mapping[str, Any]) -> Draft202012Validator:
    return Draft202012Validator(
        dict(schema),
        formats={"byte": _is_base64},
        validate_formats=True,
        pattern_options=_LINEAR,
        offline=True,
    )


def compile_schema(documents: JsonDocuments, place: Located, hidden: Hidden) -> Schema | None:
    """Return what checks values against a schema, None where it cannot, or admits everything.

    `hidden` are the members that do not count. See `schema_problems` for the reasons.
    """
    key = (place.file, str(place.value.get("$ref")), hidden) if _is_reference(place) else None
    if key is not None and key in documents.schemas:
        known: Schema | None = documents.schemas[key]
        return known
    made = _Conversion(documents, hidden).schema(place)
    if key is not None:
        documents.schemas[key] = made
    return made


def schema_problems(documents: JsonDocuments, place: Located) -> list[str]:
    """Return what a schema has that is not checked."""
    conversion, budget = _Conversion(documents, "readOnly"), documents.schema_budget
    conversion.schema(place)
    documents.schema_budget = budget
    return list(dict.fromkeys(conversion.problems))


def _is_reference(place: Located) -> bool:
    return isinstance(place.value, dict) and set(place.value) == {"$ref"}


class Schema:
    """A compiled schema. `visits` is how often the parts of it may look at one value."""

    __slots__ = ("_all", "_bundle", "_few", "_has_patterns", "_visits")

    def __init__(self, bundle: Mapping[str, Any], visits: int, *, has_patterns: bool) -> None:
        self._bundle = bundle
        self._visits = visits
        self._has_patterns = has_patterns
        self._all = _compile(bundle)
        self._few: Draft202012Validator | None = None

    def suits(self, value: Any, size: int) -> bool:
        """Return whether a value that takes `size` bytes suits; one that is too large does."""
        if size * self._visits > MAX_WORK:
            return True
        validator = self._all
        if self._has_patterns and size > MAX_MATCHED:
            validator = self._few = self._few or _compile(_without_patterns(self._bundle))
        try:
            return validator.is_valid(value)
        except (ValueError, OverflowError, RecursionError):  # half of a surrogate pair, too deep
            return False

    def errors(self, value: Any, pointer: str, size: int) -> Iterator[FieldErrorDocument]:
        """Yield what is wrong with a value that does not suit, without what was sent."""
        is_told = False
        if size <= MAX_MATCHED:
            checks = Checks(_Bundle(self._bundle), _STEPS)
            for each in checks.of(value, Located(self._bundle, _ROOT), pointer, 0):
                is_told = True
                below = f"{each.pointer}/{escape_pointer(each.member)}"
                yield {
                    "pointer": below if each.member else each.pointer,
                    "code": each.code,
                    "detail": "is required" if each.member else each.reason.removeprefix("it "),
                }
        if not is_told:
            yield {
                "pointer": pointer,
                "code": "invalid_value",
                "detail": "does not suit its schema",
            }


class _Bundle(JsonDocuments):
    """The one document that a converted schema refers to."""

    def __init__(self, bundle: Mapping[str, Any]) -> None:
        super().__init__({})
        self._bundle = bundle

    def value(self, path: str) -> Any:
        return self._bundle


def _without_patterns(value: Any) -> Any:
    """Return a schema that matches no text, though it may call a property `pattern`."""
    if isinstance(value, list):
        return [_without_patterns(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {key: each for key, each in value.items() if key in ("const", "enum")}
    for key, each in value.items():
        if key in ("properties", "dependentSchemas", "$defs"):
            made[key] = {name: _without_patterns(below) for name, below in each.items()}
        elif key not in ("pattern", "patternProperties", "const", "enum"):
            made[key] = _without_patterns(each)
    return made


@dataclass(slots=True)
class _Waiting:
    name: str
    place: Located


class _Conversion:
    """Writes one schema anew, with its references below `$defs`."""

    def __init__(self, documents: JsonDocuments, hidden: Hidden) -> None:
        self.documents = documents
        self.hidden = hidden
        self.problems: list[str] = []
        self._left = min(MAX_NODES, documents.schema_budget)
        self._names: dict[int, tuple[object, str]] = {}  # by the value, which is kept alive
        self._waiting: list[_Waiting] = []
        self._definitions: dict[str, Any] = {}
        self._has_patterns = False

    def schema(self, place: Located) -> Schema | None:
        root = self._schema(place, 0)
        while self._waiting and self._left >= 0:
            each = self._waiting.pop()
            self._definitions[each.name] = self._keywords(each.place, 0)
        if self._left < 0:
            self.problems.append(f"the schema leads to more than {MAX_NODES:,} others")
            return None
        self.documents.schema_budget -= min(MAX_NODES, self.documents.schema_budget) - self._left
        if root in (True, {}):
            return None
        bundle: dict[str, Any] = {"not": {}} if root is False else dict(root)
        if self._definitions:
            bundle["$defs"] = self._definitions
        try:
            visits = _Visits(self._definitions).of(bundle)
        except RecursionError:
            visits = MAX_VISITS + 1
        if visits > MAX_VISITS:
            self.problems.append("parts of the schema overlap too often")
            return None
        try:
            return Schema(bundle, visits, has_patterns=self._has_patterns)
        except (ValueError, RecursionError) as error:
            self.problems.append(f"the schema cannot be compiled: {str(error)[:200]}")
            return None

    def _schema(self, place: Located, depth: int) -> Any:
        value = place.value
        self._left -= 1
        if value is False:
            return False
        if not isinstance(value, dict) or self._left < 0 or depth > MAX_DEPTH:
            return True
        if "$ref" not in value:
            return self._keywords(place, depth)
        target = self.documents.resolve(place)
        if not isinstance(target.value, dict):
            self.problems.append(f'"{str(value["$ref"])[:200]}" leads to no schema')
            return True
        beside = {key: each for key, each in value.items() if key not in ("$ref", "nullable")}
        made = self._keywords(Located(beside, place.file), depth)
        made["$ref"] = f"#/$defs/{self._name(target)}"
        return {"anyOf": [{"type": "null"}, made]} if value.get("nullable") is True else made

    def _name(self, target: Located) -> str:
        found = self._names.get(id(target.value))
        if found is None:
            found = self._names[id(target.value)] = (target.value, f"d{len(self._names)}")
            self._waiting.append(_Waiting(found[1], target))
        return found[1]

    def _keywords(self, place: Located, depth: int) -> dict[str, Any]:
        schema: Mapping[str, Any] = place.value
        made = {key: schema[key] for key, makes_sense in _KEYWORDS.items()
                if key in schema and makes_sense(schema[key])}  # fmt: skip
        self._add_type(schema, made)
        self._add_bounds(schema, made)
        self._add_texts(schema, made)
        self._add_schemas(place, made, depth)
        self._hide(place, made)
        is_nullable = schema.get("nullable") is True and "type" not in schema
        if is_nullable and any(key in made for key in ("allOf", "anyOf", "oneOf")):
            return {"anyOf": [{"type": "null"}, made]}
        return made

    def _add_schemas(self, place: Located, made: dict[str, Any], depth: int) -> None:
        for key in _SCHEMAS:
            if isinstance(place.value.get(key), dict | bool):
                made[key] = self._schema(place.get(key), depth + 1)
        for key in (*_LISTS, "items"):  # a list of `items` is as before 2020-12
            if listed := place.items(key):
                name = "prefixItems" if key == "items" else key
                made[name] = [self._schema(Located(each, place.file), depth + 1) for each in listed]
        for key in _MAPS:
            if isinstance(named := place.value.get(key), dict):
                made[key] = self._members(key, Located(named, place.file), depth)

    def _members(self, key: str, place: Located, depth: int) -> dict[str, Any]:
        names = [str(each) for each in place.value]
        if key == "patternProperties":
            names = [each for each in names if self._is_linear(each)]
        return {name: self._schema(place.get(name), depth + 1) for name in names}

    def _hide(self, place: Located, made: dict[str, Any]) -> None:
        """Leave out the members that the other direction has."""
        names = [name for name, each in place.members("properties").items()
                 if self._is_hidden(Located(each, place.file))]  # fmt: skip
        for name in names:
            made["properties"].pop(name, None)
        if "required" in made:
            made["required"] = [
                each for each in made["required"] if isinstance(each, str) and each not in names
            ]

    def _is_hidden(self, place: Located) -> bool:
        beside = place.value if isinstance(place.value, dict) else {}
        found = self.documents.resolve(place).value if "$ref" in beside else beside
        return beside.get(self.hidden) is True or (
            isinstance(found, dict) and found.get(self.hidden) is True
        )

    def _add_type(self, schema: Mapping[str, Any], made: dict[str, Any]) -> None:
        named = schema.get("type")
        types = [each for each in (named if isinstance(named, list) else [named])
                 if isinstance(each, str) and each in _TYPES]  # fmt: skip
        if not types:
            return
        if schema.get("nullable") is True:
            types.append("null")
            if "enum" in made and None not in made["enum"]:
                made["enum"] = [*made["enum"], None]
        unique = list(dict.fromkeys(types))
        made["type"] = unique[0] if len(unique) == 1 else unique

    @staticmethod
    def _add_bounds(schema: Mapping[str, Any], made: dict[str, Any]) -> None:
        for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            given = schema.get(exclusive)
            if given is True and bound in made:  # as OpenAPI 3.0 writes it
                made[exclusive] = made.pop(bound)
            elif _is_number(given):
                made[exclusive] = given
        limits = _RANGES.get(str(schema.get("format")))
        if limits is not None and schema.get("type") != "string":
            made["minimum"] = max(made.get("minimum", limits[0]), limits[0])
            made["maximum"] = min(made.get("maximum", limits[1]), limits[1])

    def _add_texts(self, schema: Mapping[str, Any], made: dict[str, Any]) -> None:
        pattern, named = schema.get("pattern"), schema.get("format")
        if isinstance(pattern, str) and self._is_linear(pattern):
            made["pattern"] = pattern
        if isinstance(named, str) and named in _FORMATS:
            made["format"] = named

    def _is_linear(self, pattern: str) -> bool:
        self._has_patterns = True
        self._left -= 10  # compiling one takes time
        try:
            _compile({"pattern": pattern})
        except (ValidationError, ValueError):
            shown = pattern[:200]
            self.problems.append(f"the pattern {shown} is not one of linear time (no look-around)")
            return False
        return True


class _Visits:
    """Counts how often the parts of a schema may look at one and the same value, at most.

    What refers to itself counts once: the engine remembers what it has decided there.
    """

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._known: dict[str, int] = {}

    def of(self, schema: Any) -> int:
        if not isinstance(schema, dict):
            return 1
        total = 0
        for key in (*_SCHEMAS, *_LISTS, *_MAPS):
            if key in schema:
                found = schema[key]
                parts = found if isinstance(found, list) else (
                    list(found.values()) if key in _MAPS else [found]
                )  # fmt: skip
                visits = [self.of(each) for each in parts]
                total += max(visits, default=0) if key in _ALTERNATIVE else sum(visits)
        if "$ref" in schema:
            total += self._of_definition(str(schema["$ref"]).rpartition("/")[2])
        return min(max(1, total), MAX_VISITS + 1)

    def _of_definition(self, name: str) -> int:
        if name not in self._known:
            self._known[name] = 1
            self._known[name] = self.of(self._definitions[name])
        return self._known[name]
