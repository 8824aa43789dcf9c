"""Values that suit a JSON Schema of a contract, the same ones each time or new ones.

A schema with its `$ref` and `allOf` is brought into one flat form. Its value is the example,
default or constant that suits it, otherwise made by type. Of `oneOf` and `anyOf` the first
alternative is taken whose value suits the whole schema.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeVar

from surfaces.contract_examples.flat_schemas import Flat, flatten_schemas
from surfaces.contract_examples.fresh_values import fresh_numbers, fresh_text
from surfaces.contract_examples.pattern_samples import matching
from surfaces.contract_examples.schema_checks import (
    Checks,
    is_of_type,
    number_problems,
    text_problems,
)
from surfaces.contract_examples.text_examples import container_of, is_container
from surfaces.json_documents import JsonDocuments, Located

T = TypeVar("T")
MAX_DEPTH: Final = 24
MAX_VALUES: Final = 400  # of one sample, beyond those that are required
MAX_REQUIRED: Final = 5_000  # values in all
MAX_STEPS: Final = 100_000  # schemas that the checks of one sample look at
MAX_DRAWN_STEPS: Final = 20_000  # of one that a call waits for
MAX_ALTERNATIVES: Final = 40
MAX_ITEMS: Final = 50  # that minItems makes
MAX_TEXT: Final = 10_000  # characters that minLength makes
_LEAN_DEPTH: Final = 4  # below it, only what is required
_FORMATS: Final = {
    "uuid": "00000000-0000-4000-8000-000000000000",
    "date": "2024-01-31",
    "date-time": "2024-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "P1D",
    "email": "ada@example.org",
    "idn-email": "ada@example.org",
    "hostname": "example.org",
    "idn-hostname": "example.org",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.org",
    "url": "https://example.org",
    "uri-reference": "/example",
    "iri": "https://example.org",
    "iri-reference": "/example",
    "uri-template": "/example/{id}",
    "json-pointer": "/example",
    "relative-json-pointer": "0",
    "regex": ".*",
    "byte": "cGFydGl0YQ==",
    "password": "password",
    "decimal": "1.0",
    "int64": "1",
}


class SchemaSampler:
    """Makes the samples of one message.

    `hidden` is the keyword of members that are not in it: writeOnly in a response. With
    `randomness`, values are drawn by it, and examples and defaults do not count.
    """

    def __init__(
        self, documents: JsonDocuments, *, hidden: str = "writeOnly",
        randomness: random.Random | None = None,
    ) -> None:  # fmt: skip
        self.documents = documents
        self.hidden = hidden
        self._randomness = randomness
        self._left = MAX_VALUES
        self._checks = Checks(documents, MAX_STEPS if randomness is None else MAX_DRAWN_STEPS)
        self._active: list[int] = []  # the schemas around, by identity, to see recursion

    def value(self, *schemas: Located) -> Any:
        """Return a value for all of the schemas together."""
        return self._value(list(schemas), 0)

    def _value(self, schemas: list[Located], depth: int) -> Any:
        self._left -= 1
        if self._left < -MAX_REQUIRED:
            return None
        flat = flatten_schemas(self.documents, schemas)
        given = next(self._given_values(flat, schemas), _NOTHING)
        if given is not _NOTHING:
            return given
        if depth >= MAX_DEPTH:
            return _least(flat)
        self._active.append(flat.identity)
        try:
            return self._best(flat, schemas, depth)
        finally:
            self._active.pop()

    def _given_values(self, flat: Flat, schemas: Sequence[Located]) -> Iterator[Any]:
        """Yield the examples and constants of a schema that suit it."""
        listed = sorted(flat.given[:MAX_ALTERNATIVES], key=lambda each: each is None)
        if self._randomness is not None:
            listed = self._shuffle(listed) if flat.is_constant else []
        for value in listed:
            found = container_of(value) if is_container(flat) else value
            # an example shows its format as the author means it
            loose = isinstance(found, str) and flat.keywords.get("format") is not None
            wanted = [self._without_format(each) for each in schemas] if loose else schemas
            if self._checks.suits(found, wanted):
                yield copy.deepcopy(found) if isinstance(found, dict | list) else found

    def _without_format(self, schema: Located) -> Located:
        found = self.documents.resolve(schema)
        if not isinstance(found.value, dict):
            return found
        return Located({**found.value, "format": None}, found.file)

    def _shuffle(self, listed: Sequence[T]) -> list[T]:
        """Return as it is what is not drawn, otherwise in any order."""
        if self._randomness is None:
            return list(listed)
        return self._randomness.sample(listed, len(listed))

    def _best(self, flat: Flat, schemas: list[Located], depth: int) -> Any:
        first: Any = _NOTHING
        for variant in self._variants(flat):
            made = self._build_sample(variant, depth)
            if first is _NOTHING:
                first = made
            if self._left < 0 or self._checks.steps < 0 or not flat.has_conditions:
                return made
            if self._checks.suits(made, schemas):
                return made
        return self._build_sample(flat, depth) if first is _NOTHING else first

    def _variants(self, flat: Flat, level: int = 0) -> Iterator[Flat]:
        """Yield the flat forms with one alternative chosen of each group, the first ones first.

        Then the same without what is optional.
        """
        if level == 0:
            yield from self._variants(flat, 1)
            for variant in self._variants(flat, 1):
                variant.is_lean = True
                yield variant
            return
        if not flat.groups or level > _LEAN_DEPTH:
            yield flat
            return
        for alternative in self._shuffle(flat.groups[0][:MAX_ALTERNATIVES]):
            chosen = flat.choosing(flatten_schemas(self.documents, [alternative]), alternative)
            if not flat.admits(chosen):
                continue
            yield from self._variants(chosen, level + 1)

    def _build_sample(self, flat: Flat, depth: int) -> Any:
        given = next((each for each in flat.given if each is not None), _NOTHING)
        if given is not _NOTHING and flat.is_constant:
            return copy.deepcopy(given)
        kind, drawn = flat.type, self._randomness
        if kind == "object":
            return self._object(flat, depth)
        if kind == "array":
            return self._array(flat, depth)
        if kind in _FIXED:
            return bool(drawn.getrandbits(1)) if drawn and kind == "boolean" else _FIXED[kind]
        return (_number if kind in ("integer", "number") else _text)(flat, drawn)

    def _object(self, flat: Flat, depth: int) -> dict[str, object]:
        made: dict[str, object] = {}
        lean = flat.is_lean or depth >= _LEAN_DEPTH
        limit = flat.number("maxProperties", math.inf)
        for name, schemas in flat.ordered_properties(self.hidden):
            is_required = name in flat.required
            if not is_required and (lean or self._left < 0 or len(made) >= limit):
                continue
            if not is_required and self._recurs(schemas):
                continue
            made[name] = self._value(schemas, depth + 1)
        for name in flat.required:
            if name not in made and name not in flat.properties:
                made[name] = self._value(flat.additional or [_ANYTHING], depth + 1)
        self._fill(made, flat, depth)
        self._discriminate(made, flat, depth)
        return made

    def _discriminate(self, made: dict[str, object], flat: Flat, depth: int) -> None:
        """Add the discriminators, which a lean object may lack."""
        for name, value in flat.discriminator.items():
            if self._is_fixed(flat, name):
                made.setdefault(name, self._value(flat.properties[name], depth + 1))
            elif not flat.is_closed or name in flat.properties:
                made[name] = value

    def _fill(self, made: dict[str, object], flat: Flat, depth: int) -> None:
        """Add members that no property names: one to show a map, or as many as there must be."""
        wanted = int(min(flat.number("minProperties", 0), MAX_ITEMS))
        shows = flat.additional and not flat.properties and not flat.is_lean
        if shows and depth < _LEAN_DEPTH and not self._recurs(flat.additional):
            wanted = max(wanted, 1)
        if flat.is_closed or len(made) >= wanted:
            return
        for number in range(wanted - len(made)):
            made[f"key{number + 1 if number else ''}"] = self._value(
                flat.additional or [_ANYTHING], depth + 1
            )

    def _is_fixed(self, flat: Flat, name: str) -> bool:
        own = flatten_schemas(self.documents, flat.properties.get(name, []))
        return own.is_constant

    def _array(self, flat: Flat, depth: int) -> list[Any]:
        made = [self._value([each], depth + 1) for each in flat.prefix[:MAX_ITEMS]]
        if flat.contains:
            times = range(int(min(flat.number("minContains", 1), MAX_ITEMS)))
            made += [self._value([*flat.contains, *flat.items], depth + 1) for _ in times]
        least = int(min(flat.number("minItems", 0), MAX_ITEMS))
        most = flat.number("maxItems", math.inf)
        wanted = max(least, 1) if flat.items else least
        if flat.items and self._randomness and flat.keywords.get("uniqueItems") is not True:
            wanted += self._randomness.randrange(3)
        lean = flat.is_lean or self._left < 0 or depth >= _LEAN_DEPTH
        if lean or self._recurs(flat.items):
            wanted = least
        while len(made) < min(wanted, most):
            made.append(self._item(flat, made, depth))
        return made

    def _item(self, flat: Flat, made: list[Any], depth: int) -> Any:
        value = self._value(flat.items or [_ANYTHING], depth + 1)
        if flat.keywords.get("uniqueItems") is not True or value not in made:
            return value
        own = flatten_schemas(self.documents, flat.items)
        unused = [each for each in own.given if each not in made]
        if unused:
            return unused[0]
        if isinstance(value, str):
            return f"{value}{len(made)}"
        return value + len(made) if is_of_type(value, "number") else value

    def _recurs(self, schemas: Sequence[Located]) -> bool:
        """Return whether a schema, or that of its items, is one of those around it."""
        for _ in range(4):
            if not schemas:
                return False
            flat = flatten_schemas(self.documents, list(schemas))
            if flat.identity in self._active:
                return True
            schemas = flat.items if flat.type == "array" else ()
        return False


def _least(flat: Flat) -> Any:
    if flat.is_nullable:
        return None
    return {"object": {}, "array": [], "boolean": True, "integer": 0, "number": 0}.get(
        flat.type, "string"
    )


def _number(flat: Flat, drawn: random.Random | None) -> Any:
    """Return 1 or 0 if allowed, otherwise a number at the end of the range or between."""
    step = flat.number("multipleOf", 0) or (1 if flat.type == "integer" else 0)
    numbers = _numbers(flat, step)
    if drawn is not None:
        numbers = chain(fresh_numbers(drawn, *_bounds(flat), step), numbers)
    for value in numbers:
        if not math.isfinite(value):
            continue
        shown = int(value) if float(value).is_integer() else value
        if next(number_problems(shown, flat.keywords), None) is None:
            return shown
    return 1


def _numbers(flat: Flat, step: float) -> Iterator[float]:
    if flat.is_lean and flat.type == "number":
        yield 0.5  # no integer: another alternative may take these
    yield from (1, 0, step)
    low, high = _bounds(flat)
    for end, sign in ((low, 1), (high, -1)):
        if math.isfinite(end):
            edge = (
                step * (math.ceil(end / step) if sign > 0 else math.floor(end / step))
                if step
                else end
            )
            yield from (edge, edge + sign * (step or 1))
    yield (low + high) / 2


def _bounds(flat: Flat) -> tuple[float, float]:
    low = max(flat.number("minimum", -math.inf), flat.number("exclusiveMinimum", -math.inf))
    return low, min(flat.number("maximum", math.inf), flat.number("exclusiveMaximum", math.inf))


def _text(flat: Flat, drawn: random.Random | None) -> str:
    least = int(min(flat.number("minLength", 0), MAX_TEXT))
    most = flat.number("maxLength", math.inf)
    usual = _FORMATS.get(str(flat.keywords.get("format")), "")
    limits = {**flat.keywords, "type": "string"}
    if drawn is not None:
        named = str(flat.keywords.get("format", ""))
        usual = fresh_text(drawn, named, least, min(most, MAX_TEXT)) or usual
    if usual and all(_suits_text(usual, {**limits, "pattern": each}) for each in flat.patterns):
        return usual
    for pattern in flat.patterns:
        made = matching(pattern, least, None if math.isinf(most) else int(most))
        if made is not None:
            return made
    text = usual or "string"
    if len(text) < least:
        text += "x" * (least - len(text))
    return text if len(text) <= most else text[: int(most)]


def _suits_text(text: str, keywords: Mapping[str, object]) -> bool:
    return next(text_problems(text, keywords), None) is None


_NOTHING: Final = object()
_FIXED: Final = {"boolean": True, "null": None}
_ANYTHING: Final = Located({"type": "string"}, "")
