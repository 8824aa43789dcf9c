"""The check of a tree against a JSON Schema 2020-12, and the schema's marks.

Nothing is fetched, patterns run in linear time, and no message holds a value. `x-partita-secret`
and `x-partita-log` count in every subschema that may describe a value, also in branches that do
not hold: one secret too many is better than one written in the open.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import re2
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry, Resource
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import DRAFT202012

from readers import Unreadable
from readers.diagnostics import Diagnostic, dotted_path
from readers.json import read_json
from readers.tree import Kind, Tree
from sync_stack.core.shaping.leaves import Path

MAX_ERRORS: Final = 200
_LONGEST_SHOWN: Final = 120
_Errors = Iterator[ValidationError]


class SchemaUnusable(Exception):
    """The schema itself is wrong or cannot be evaluated; the message holds no value of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """`secrets`: path → `path#key`, or empty for the prefix and the flat key.

    A mark holds for what lies below its path too.
    """

    secrets: Mapping[Path, str] = field(default_factory=dict)
    logged: frozenset[Path] = frozenset()

    def secret_of(self, path: Path) -> str | None:
        for length in range(len(path), -1, -1) if self.secrets else ():
            if path[:length] in self.secrets:
                return self.secrets[path[:length]]
        return None

    def is_logged(self, path: Path) -> bool:
        if not self.logged:
            return False
        return any(path[:length] in self.logged for length in range(len(path) + 1))


def check_json(
    text: str, tree: Tree, *, schema_file: str, file: str
) -> tuple[list[Diagnostic], Marks]:
    """Return the errors in the tree (at most 200) and the schema's marks. Raise SchemaUnusable."""
    schema = _schema(text)
    registry: Registry[Any] = Registry(retrieve=_refuse)  # type: ignore[call-arg] # attrs
    resource = Resource.from_contents(schema, default_specification=DRAFT202012)
    validator = _Validator(schema, registry=registry)
    try:
        errors = validator.iter_errors(tree.plain())
        diagnostics = [_diagnostic(error, tree, file) for error in islice(errors, MAX_ERRORS)]
        marks = find_marks(schema, tree, registry.resolver_with_root(resource))
    except Unresolvable as error:
        raise SchemaUnusable(f"the reference {error.ref!r} leads nowhere in the schema") from None
    except re2.error:
        raise SchemaUnusable("a pattern of the schema is not supported") from None
    except RecursionError:
        raise SchemaUnusable("the schema refers to itself without end") from None
    return diagnostics, marks


def _refuse(uri: str) -> Resource[Any]:
    raise NoSuchResource(ref=uri)  # type: ignore[call-arg] # attrs


def _schema(text: str) -> Any:
    try:
        schema = read_json(text.encode())
        Draft202012Validator.check_schema(schema)
    except Unreadable as error:
        raise SchemaUnusable(f"no JSON: {error.reason} (line {error.line or 1})") from None
    except SchemaError as error:
        where = dotted_path(tuple(error.absolute_path)) or "its top"
        raise SchemaUnusable(f"no JSON Schema 2020-12: {where} breaks {error.validator}") from None
    except RecursionError:
        raise SchemaUnusable("the schema is nested too deep") from None
    return schema


def _diagnostic(error: ValidationError, tree: Tree, file: str) -> Diagnostic:
    path = tuple(error.absolute_path)
    at = tree
    for part in path:
        at = at.items[part] if isinstance(part, int) else at.pairs[part]
    return Diagnostic(
        file=file,
        line=at.line,
        column=at.column,
        path=dotted_path(path),
        code="schema_invalid",
        severity="warning",
        message=_describe(error),
    )


def _describe(error: ValidationError) -> str:
    """Return what the schema demands, never the value itself."""
    demanded = json.dumps(error.validator_value, ensure_ascii=False)
    if error.validator == "required":
        required: Any = error.validator_value
        instance: Any = error.instance
        missing = (name for name in required if name not in instance)
        return f"lacks {', '.join(map(json.dumps, missing))}"
    if error.validator == "additionalProperties":
        return "is not known to the schema"
    if error.validator == "unevaluatedProperties":
        return "has members that the schema does not know"
    if error.validator in _SHOWN and len(demanded) <= _LONGEST_SHOWN:
        return f"breaks {error.validator} {demanded}"
    return f"breaks {error.validator or 'the schema'}"


_SHOWN: Final = {
    "type", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
    "maxProperties", "dependentRequired", "uniqueItems",
}  # fmt: skip


def _pattern(validator: Any, pattern: str, instance: Any, _schema: Any) -> _Errors:
    if validator.is_type(instance, "string") and not re2.search(pattern, instance):
        yield ValidationError("does not match the pattern")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> _Errors:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        for key, value in instance.items():
            if re2.search(pattern, key):
                yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def _additional_properties(validator: Any, rest: Any, instance: Any, schema: Any) -> _Errors:
    if not validator.is_type(instance, "object"):
        return
    for key in extra_members(instance, schema):
        if validator.is_type(rest, "object"):
            yield from validator.descend(instance[key], rest, path=key)
        elif not rest:
            yield ValidationError("a member that the schema does not know", path=[key])


def extra_members(members: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """Return the members that neither `properties` nor `patternProperties` names."""
    patterns = schema.get("patternProperties", {})
    return [
        key
        for key in members
        if key not in schema.get("properties", {})
        and not any(re2.search(pattern, key) for pattern in patterns)
    ]


_KEYWORDS: Final[dict[str, Callable[..., _Errors]]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
}
_Validator: Final = extend(Draft202012Validator, _KEYWORDS)  # type: ignore[no-untyped-call]


SECRET: Final = "x-partita-secret"  # noqa: S105 - the keyword's name
LOG: Final = "x-partita-log"
_SAME_PLACE: Final = ("allOf", "anyOf", "oneOf")
_ONE: Final = ("if", "then", "else")
_MAX_SUBSCHEMAS: Final = 300_000


def find_marks(schema: Any, tree: Tree, resolver: Any) -> Marks:
    """Return the marks. Raise Unresolvable, or SchemaUnusable for a mark of another type."""
    finder = _Finder()
    finder.lay(schema, tree, (), resolver, frozenset())
    return Marks(secrets=finder.secrets, logged=frozenset(finder.logged))


class _Finder:
    def __init__(self) -> None:
        self.secrets: dict[Path, str] = {}
        self.logged: set[Path] = set()
        self.visits = 0

    def lay(self, schema: Any, tree: Tree, path: Path, resolver: Any, seen: frozenset[int]) -> None:
        """`seen`: the subschemas applied to this very value, so that references may be circular."""
        if not isinstance(schema, Mapping) or id(schema) in seen:
            return
        self.visits += 1
        if self.visits > _MAX_SUBSCHEMAS:
            raise SchemaUnusable("the schema has too many branches")
        self.take(schema, path)
        seen |= {id(schema)}
        for inner in _beside(schema):
            self.lay(inner, tree, path, resolver, seen)
        if isinstance(schema.get("$ref"), str):
            found = resolver.lookup(schema["$ref"])
            self.lay(found.contents, tree, path, found.resolver, seen)
        for segment, inner, value in _below(schema, tree):
            self.lay(inner, value, (*path, segment), resolver, frozenset())

    def take(self, schema: Mapping[str, Any], path: Path) -> None:
        mark = schema.get(SECRET, False)
        if not isinstance(mark, (bool, str)):
            raise SchemaUnusable(f"{SECRET} is true or a text path#key")
        if mark is not False:
            named = mark if isinstance(mark, str) else ""
            self.secrets[path] = named or self.secrets.get(path, "")
        if schema.get(LOG) is True:
            self.logged.add(path)


def _beside(schema: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the subschemas that apply to the same value."""
    for keyword in _SAME_PLACE:
        yield from schema.get(keyword, ())
    for keyword in _ONE:
        yield schema.get(keyword)
    yield from schema.get("dependentSchemas", {}).values()


def _below(schema: Mapping[str, Any], tree: Tree) -> Iterator[tuple[str, Any, Tree]]:
    """Yield (name, subschema, value) for each member of the value."""
    if tree.kind is Kind.MAP:
        for key, value in tree.pairs.items():
            for inner in _of_member(schema, key):
                yield key, inner, value
    for index, item in enumerate(tree.items):
        prefix = schema.get("prefixItems", ())
        inner = prefix[index] if index < len(prefix) else schema.get("items")
        yield str(index), inner, item


def _of_member(schema: Mapping[str, Any], key: str) -> Iterator[Any]:
    named = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    matching = [inner for pattern, inner in patterns.items() if re2.search(pattern, key)]
    if key in named:
        yield named[key]
    yield from matching
    if key not in named and not matching:
        yield schema.get("additionalProperties")
    yield schema.get("unevaluatedProperties")
