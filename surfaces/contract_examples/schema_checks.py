"""Whether a value suits a JSON Schema of a contract (OpenAPI 3.0 and 3.1, AsyncAPI).

Keywords that are not known are ignored, as JSON Schema wants.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from readers.json import escape_pointer
from surfaces.contract_examples.pattern_samples import matcher
from surfaces.json_documents import JsonDocuments, Located

MAX_DEPTH: Final = 48
MAX_STEPS: Final = 20_000  # schemas that one check looks at
_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer())
    ),
}
_DATE: Final = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_FORMATS: Final = {
    "date": re.compile(rf"{_DATE}\Z"),
    "date-time": re.compile(
        rf"{_DATE}[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{{1,9}})?([Zz]|[+-]\d\d:\d\d)\Z"
    ),
    "time": re.compile(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)\Z"),
    "uuid": re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z"),
    "email": re.compile(r"[^@\s]{1,64}@[^@\s]{1,255}\Z"),
    "ipv4": re.compile(r"((25[0-5]|2[0-4]\d|1?\d?\d)(\.|\Z)){4}\Z"),
    "ipv6": re.compile(r"[0-9a-fA-F:.]{2,45}\Z"),
    "uri": re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]*\Z"),
}
_RANGES: Final = {"int32": 2**31, "int64": 2**63}


@dataclass(frozen=True, slots=True)
class Problem:
    """What does not suit: where in the value (a JSON pointer), and why.

    `code` is one of `errors[]`; `member` is the one that is missing.
    """

    pointer: str
    reason: str
    code: str = "invalid_value"
    member: str = ""


def problems(documents: JsonDocuments, value: Any, schema: Located) -> Iterator[Problem]:
    """Yield what does not suit the schema, the first of each place first."""
    return Checks(documents).of(value, schema, "", 0)


def is_of_type(value: Any, name: Any) -> bool:
    test = _TYPES.get(name) if isinstance(name, str) else None
    return test is None or test(value)


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal in JSON, where `true` is not 1."""
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


class Checks:
    """Checks that share one bound: beyond `steps` schemas, everything suits."""

    def __init__(self, documents: JsonDocuments, steps: int = MAX_STEPS) -> None:
        self.documents = documents
        self.steps = steps

    def suits(self, value: Any, schemas: Sequence[Located]) -> bool:
        return all(self.passes(value, schema, 0) for schema in schemas)

    def passes(self, value: Any, schema: Located, depth: int) -> bool:
        return next(self.of(value, schema, "", depth), None) is None

    def of(self, value: Any, schema: Located, pointer: str, depth: int) -> Iterator[Problem]:
        self.steps -= 1
        if self.steps < 0 or depth > MAX_DEPTH:
            return
        if schema.value is False:
            yield Problem(pointer, "nothing is allowed here")
            return
        target = self.documents.resolve(schema)
        if not isinstance(target.value, dict):
            return
        if target.value is not schema.value and len(schema.value) > 1:
            beside = {key: each for key, each in schema.value.items() if key != "$ref"}
            yield from self._keywords(value, Located(beside, schema.file), pointer, depth)
        yield from self._keywords(value, target, pointer, depth)

    def _keywords(self, value: Any, at: Located, pointer: str, depth: int) -> Iterator[Problem]:
        schema = at.value
        if value is None and schema.get("nullable") is True and "type" in schema:
            schema = {key: each for key, each in schema.items() if key in ("enum", "const")}
            at = Located(schema, at.file)
        for reason, code in _own_problems(value, schema):
            yield Problem(pointer, reason, code)
        yield from self._check_combinations(value, at, pointer, depth)
        if isinstance(value, dict):
            yield from self._object(value, at, pointer, depth)
        elif isinstance(value, list):
            yield from self._array(value, at, pointer, depth)

    def _check_combinations(
        self, value: Any, at: Located, pointer: str, depth: int
    ) -> Iterator[Problem]:
        for part in at.items("allOf"):
            yield from self.of(value, Located(part, at.file), pointer, depth + 1)
        for key in ("anyOf", "oneOf"):
            if not (listed := at.items(key)):
                continue
            passed = sum(self.passes(value, Located(each, at.file), depth + 1) for each in listed)
            if passed == 0:
                yield Problem(pointer, f"it suits none of {key}")
            elif passed > 1 and key == "oneOf":
                yield Problem(pointer, f"it suits {passed} of oneOf")
        name = at.members("discriminator").get("propertyName")
        chooses = "oneOf" in at.value or "anyOf" in at.value
        if chooses and isinstance(value, dict) and isinstance(name, str) and name not in value:
            yield Problem(pointer, f'the discriminator "{name}" is missing')
        if "not" in at.value and self.passes(value, at.get("not"), depth + 1):
            yield Problem(pointer, "it suits what `not` excludes")

    def _object(
        self, value: Mapping[str, object], at: Located, pointer: str, depth: int
    ) -> Iterator[Problem]:
        declared = at.members("properties")
        for name in at.items("required"):
            hidden = declared.get(name) if isinstance(name, str) else None
            if name not in value and not (isinstance(hidden, dict) and hidden.get("writeOnly")):
                yield Problem(pointer, f'"{name}" is missing', "required", str(name))
        patterns = at.members("patternProperties")
        others = at.value.get("additionalProperties", True)
        for name, each in value.items():
            below = f"{pointer}/{escape_pointer(name)}"
            schemas = [declared[name]] if name in declared else []
            schemas += [
                found for key, found in patterns.items() if (re := matcher(key)) and re.search(name)
            ]
            if not schemas and others is False:
                yield Problem(below, "this member is not declared", "unknown_field")
                continue
            for schema in schemas or [others]:
                yield from self.of(each, Located(schema, at.file), below, depth + 1)

    def _array(self, value: list[Any], at: Located, pointer: str, depth: int) -> Iterator[Problem]:
        first = at.items("prefixItems")
        for number, (each, schema) in enumerate(zip(value, first, strict=False)):
            place = Located(schema, at.file)
            yield from self.of(each, place, f"{pointer}/{number}", depth + 1)
        if "items" in at.value:
            for number, each in enumerate(value[len(first) :], len(first)):
                yield from self.of(each, at.get("items"), f"{pointer}/{number}", depth + 1)


def _own_problems(value: Any, schema: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield what breaks the keywords that need no other schema, and its code."""
    named = schema.get("type")
    types = named if isinstance(named, list) else [named]
    if named is not None and not any(is_of_type(value, each) for each in types):
        yield f"it must be {' or '.join(str(each) for each in types)}", "wrong_type"
    for reason in _value_problems(value, schema):
        yield reason, "invalid_value"


def _value_problems(value: Any, schema: Mapping[str, object]) -> Iterator[str]:
    if "const" in schema and not same(value, schema["const"]):
        yield "it must be the constant"
    enum = schema.get("enum")
    if isinstance(enum, list) and not any(same(value, each) for each in enum):
        yield "it must be one of the enum"
    if isinstance(value, str):
        yield from text_problems(value, schema)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from number_problems(value, schema)
    elif isinstance(value, dict | list):
        yield from _size_problems(value, schema)


def text_problems(value: str, schema: Mapping[str, object]) -> Iterator[str]:
    """Yield which limits, pattern or format a text breaks."""
    if len(value) < _number(schema, "minLength", 0):
        yield f"it must have at least {schema['minLength']} characters"
    if len(value) > _number(schema, "maxLength", math.inf):
        yield f"it must have at most {schema['maxLength']} characters"
    pattern, name = schema.get("pattern"), schema.get("format")
    expression = matcher(pattern) if isinstance(pattern, str) else None
    if expression is not None and not expression.search(value):
        yield f"it must match {str(pattern)[:200]}"
    known = _FORMATS.get(name) if isinstance(name, str) else None
    if known is not None and not known.match(value):
        yield f"it must be of the format {name}"


def number_problems(value: float, schema: Mapping[str, object]) -> Iterator[str]:
    """Yield which bounds a number breaks."""
    least, most = _number(schema, "minimum", -math.inf), _number(schema, "maximum", math.inf)
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if value < least or (above is True and value == least):
        yield f"it must be {'>' if above is True else '≥'} {_shown(least)}"
    elif value > most or (below is True and value == most):
        yield f"it must be {'<' if below is True else '≤'} {_shown(most)}"
    elif value <= _number(schema, "exclusiveMinimum", -math.inf):
        yield f"it must be > {above}"
    elif value >= _number(schema, "exclusiveMaximum", math.inf):
        yield f"it must be < {below}"
    step = _number(schema, "multipleOf", 0)
    if step > 0 and math.isfinite(value) and not _is_multiple(value, step):
        yield f"it must be a multiple of {step:g}"
    limit = _RANGES.get(str(schema.get("format")))
    if limit is not None and not -limit <= value < limit:
        yield f"it must fit into {schema['format']}"


def _shown(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    quotient = value / step
    return math.isfinite(quotient) and quotient == int(quotient)


def _size_problems(
    value: dict[str, object] | list[object], schema: Mapping[str, object]
) -> Iterator[str]:
    word = "Properties" if isinstance(value, dict) else "Items"
    if len(value) < _number(schema, f"min{word}", 0):
        yield f"it has fewer than min{word}"
    if len(value) > _number(schema, f"max{word}", math.inf):
        yield f"it has more than max{word}"
    if schema.get("uniqueItems") is True and isinstance(value, list) and _repeats(value):
        yield "its items must differ"


def _repeats(value: list[Any]) -> bool:
    head = value[:200]  # the rest is not compared: each with each other
    return any(same(each, other) for at, each in enumerate(head) for other in head[:at])


def _number(schema: Mapping[str, object], name: str, otherwise: float) -> float:
    found = schema.get(name)
    if isinstance(found, int | float) and not isinstance(found, bool):
        return found
    return otherwise
