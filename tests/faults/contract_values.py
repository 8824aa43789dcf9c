"""Values that suit a JSON Schema, and values that break one rule of it; both from one seed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from surfaces.contract_examples.pattern_samples import matching

Schema: TypeAlias = Mapping[str, Any]
MAX_DEPTH: Final = 6
FORMATS: Final = {
    "date-time": "2026-01-02T03:04:05Z",
    "date": "2026-01-02",
    "time": "03:04:05Z",
    "email": "ada@example.org",
    "uuid": "7f1c2f52-3c1e-4b0e-9d0a-0a1b2c3d4e5f",
    "uri": "https://example.org/a",
    "url": "https://example.org/a",
    "uri-reference": "/a",
    "hostname": "example.org",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "byte": "aGVsbG8=",
    "duration": "P1D",
    "json-pointer": "/a",
    "decimal": "1.5",
}
_CHECKED_FORMATS: Final = {"date-time", "date", "email", "uuid", "uri", "ipv4", "ipv6"}
_WRONG_TYPES: Final[Mapping[str, Any]] = {
    "integer": "many",
    "number": "many",
    "boolean": "perhaps",
    "string": {"no": "text"},
    "array": {"no": "list"},
    "object": "no object",
    "null": "no null",
}


@dataclass(frozen=True)
class Wrong:
    """A value that breaks one rule; `pointer` is where, without a slash in front of nothing."""

    rule: str
    pointer: str
    value: Any


class Values:
    """Makes values for schemas whose references `resolve` follows."""

    def __init__(self, resolve: Callable[[Any], Any], seed: str, *, is_lean: bool = False) -> None:
        self._resolve = resolve
        self._random = random.Random(seed)
        self._is_lean = is_lean  # only members that are required

    def sample(self, schema: object, depth: int = 0) -> Any:
        flat = self.flatten(schema)
        if "const" in flat:
            return flat["const"]
        if choices := flat.get("enum"):
            return self._random.choice([each for each in choices if each is not None] or [None])
        makers: Mapping[str, Callable[[], Any]] = {
            "object": lambda: self._object(flat, depth),
            "array": lambda: self._array(flat, depth),
            "string": lambda: self._text(flat),
            "integer": lambda: self._number(flat, whole=True),
            "number": lambda: self._number(flat, whole=False),
            "boolean": lambda: self._random.random() < 0.5,
            "null": lambda: None,
        }
        return makers.get(self.type_of(flat), lambda: flat.get("example", "anything"))()

    def flatten(self, schema: object, level: int = 0) -> dict[str, Any]:
        """Return one schema of its own, all of `allOf`, and the first alternatives."""
        found = self._resolve(schema)
        if not isinstance(found, dict) or level > MAX_DEPTH:
            return {}
        flat = {key: value for key, value in found.items() if key not in ("allOf", "$ref")}
        parts = [*found.get("allOf", ())]
        for key in ("oneOf", "anyOf"):
            if choices := found.get(key):
                whole = [each for each in choices if self._resolve(each).get("type") != "null"]
                parts.append(whole[0] if whole else choices[0])
        for each in parts:
            _join(flat, self.flatten(each, level + 1))
        return flat

    @staticmethod
    def type_of(flat: Schema) -> str:
        kinds = flat.get("type")
        if isinstance(kinds, list):
            kinds = next((each for each in kinds if each != "null"), "null")
        if kinds is None:
            keys = {"properties": "object", "required": "object", "additionalProperties": "object",
                    "items": "array", "pattern": "string", "maxLength": "string",
                    "maximum": "number", "minimum": "number"}  # fmt: skip
            kinds = next((kind for key, kind in keys.items() if key in flat), "")
        return str(kinds)

    def _object(self, flat: Schema, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        required = flat.get("required", ())
        for name, schema in flat.get("properties", {}).items():
            below = self._resolve(schema)
            if isinstance(below, dict) and below.get("readOnly"):
                continue
            is_drawn = not self._is_lean and depth < 3 and self._random.random() < 0.7
            if name in required or is_drawn:
                made[name] = self.sample(schema, depth + 1)
        for name in required:
            if name not in made and name not in flat.get("properties", {}):
                made[name] = self.sample(self._additional(flat), depth + 1)
        for number in range(flat.get("minProperties", 0) - len(made)):
            made[f"member{number}"] = self.sample(self._additional(flat), depth + 1)
        return made

    @staticmethod
    def _additional(flat: Schema) -> object:
        patterns = [*flat.get("patternProperties", {}).values()]
        found = flat.get("additionalProperties", patterns[0] if patterns else {})
        return found if isinstance(found, dict) else {}

    def _array(self, flat: Schema, depth: int) -> list[Any]:
        least = flat.get("minItems", 0 if depth > MAX_DEPTH else 1)
        most = max(least, min(flat.get("maxItems", 2), 2))
        head = [self.sample(each, depth + 1) for each in flat.get("prefixItems", ())]
        wanted = (head and len(head)) or self._random.randint(least, most)
        made: list[Any] = []
        for number in range(20 * wanted):
            if len(made) >= wanted:
                break
            item = head[number] if number < len(head) else self.sample(
                flat.get("items", flat.get("contains", {})), depth + 1
            )  # fmt: skip
            if not flat.get("uniqueItems") or item not in made:
                made.append(item)
        return made

    def _text(self, flat: Schema) -> str:
        least, most = flat.get("minLength", 0), flat.get("maxLength")
        if pattern := flat.get("pattern"):
            return matching(pattern, least, most) or "a"
        if found := FORMATS.get(flat.get("format", "")):
            return found
        text = self._random.choice(["rex", "tom", "ada", "Zoë", "x y"])
        text = text.ljust(least, "x")
        return text if most is None else text[:most]

    def _number(self, flat: Schema, *, whole: bool) -> float:
        low, high = _bounds(flat, least=1 if whole else 0.5)
        step = flat.get("multipleOf", 1 if whole else 0.5)
        first = -(-low // step) * step
        many = max(0, int((high - first) / step))
        value = first + step * self._random.randint(0, min(many, 4))
        return int(value) if whole or value == int(value) else value

    def wrong(
        self, schema: object, value: Any, pointer: str = "", depth: int = 0
    ) -> Iterator[Wrong]:
        """Yield what breaks the schema in one place each, made from a value that suits it."""
        flat = self.flatten(schema)
        kind = self.type_of(flat)
        if kind in _WRONG_TYPES and not ("oneOf" in flat or "anyOf" in flat):
            yield Wrong("type", pointer, _WRONG_TYPES[kind])
        for rule, other in _broken_bounds(flat, kind, value):
            yield Wrong(rule, pointer, other)
        if isinstance(value, dict) and depth < MAX_DEPTH:
            yield from self._wrong_members(flat, value, pointer, depth)
        if isinstance(value, list) and value and "prefixItems" not in flat and depth < MAX_DEPTH:
            for each in self.wrong(flat.get("items", {}), value[0], f"{pointer}/0", depth + 1):
                yield Wrong(each.rule, each.pointer, [each.value, *value[1:]])

    def _wrong_members(
        self, flat: Schema, value: dict[str, Any], pointer: str, depth: int
    ) -> Iterator[Wrong]:
        for name in flat.get("required", ()):
            if name in value:
                rest = {key: each for key, each in value.items() if key != name}
                yield Wrong("required", f"{pointer}/{name}", rest)
        if flat.get("additionalProperties") is False:
            yield Wrong("additionalProperties", pointer, value | {"unknownMember": 1})
        for name, below in flat.get("properties", {}).items():
            if name in value:
                escaped = name.replace("~", "~0").replace("/", "~1")
                for each in self.wrong(below, value[name], f"{pointer}/{escaped}", depth + 1):
                    yield Wrong(each.rule, each.pointer, value | {name: each.value})


def _broken_bounds(flat: Schema, kind: str, value: Any) -> Iterator[tuple[str, Any]]:
    if "enum" in flat or "const" in flat:
        yield "enum", "none-of-them" if kind in ("string", "") else 987_654
    if kind == "string":
        yield from _broken_text(flat)
    if kind in ("integer", "number"):
        yield from _broken_number(flat, kind)
    if kind == "array" and isinstance(value, list) and value:
        yield from _broken_list(flat, value)


def _broken_number(flat: Schema, kind: str) -> Iterator[tuple[str, Any]]:
    low, high = _bounds(flat, least=None)
    if high is not None:
        yield "bounds", high + 1_000
    if low is not None:
        yield "bounds", low - 1_000
    if kind == "integer":
        yield "type", 1.5


def _broken_list(flat: Schema, value: list[Any]) -> Iterator[tuple[str, Any]]:
    if flat.get("minItems"):
        yield "size", []
    if "maxItems" in flat:
        yield "size", value[:1] * (flat["maxItems"] + 1)
    if flat.get("uniqueItems"):
        yield "uniqueItems", [value[0], value[0]]


def _broken_text(flat: Schema) -> Iterator[tuple[str, Any]]:
    if flat.get("format") in _CHECKED_FORMATS:
        yield "format", "not of this format"
    if flat.get("minLength"):
        yield "length", ""
    if "maxLength" in flat:
        yield "length", "x" * (flat["maxLength"] + 1)
    if "pattern" in flat:
        yield "pattern", "§"


def _bounds(flat: Schema, *, least: float | None) -> tuple[Any, Any]:
    """Return the lowest and highest number; without bounds `least` and 100 more, or None."""
    low, high = flat.get("minimum"), flat.get("maximum")
    for name, sign in (("exclusiveMinimum", 1), ("exclusiveMaximum", -1)):
        bound = flat.get(name)
        if bound is True:  # OpenAPI 3.0 and Swagger 2
            bound = low if sign > 0 else high
        if isinstance(bound, int | float) and bound is not False:
            low, high = (bound + 1, high) if sign > 0 else (low, bound - 1)
    if least is None:
        return low, high
    low = min(least, high) if low is None and high is not None else (least if low is None else low)
    return low, low + 100 if high is None else high


def _join(flat: dict[str, Any], other: Mapping[str, Any]) -> None:
    for key, value in other.items():
        if key == "properties":
            flat[key] = flat.get(key, {}) | value
        elif key == "required":
            flat[key] = [*dict.fromkeys([*flat.get(key, ()), *value])]
        else:
            flat.setdefault(key, value)


def compact_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
