"""Files that people write as typed values: a key is declared once, as a field of a FileRecord.

class CallLimit(FileRecord, frozen=True, kw_only=True):
    '''At most so many calls within a time.'''
    calls: Annotated[int, whole(1, 1_000_000), "how many calls"]
    per_ms: Annotated[int, Named("per"), duration(1, 3_600_000), "within which time, as in 1s"]

read_record(CallLimit, tree, notes)    # raises Unreadable at the first value that does not fit
records_schema(CallLimit)              # JSON Schema 2020-12, for editors

A field is read by the Form in its annotation, otherwise by that of its type. Keys ignore case. A
blank text counts as missing unless its form takes it. A lenient record goes on without a key that
it does not know and without a value of a wrong kind, and tells of both in the FileNotes.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from readers import Unreadable
from readers.diagnostics import nearest_advice
from readers.tree import Kind, Tree
from surfaces.forms import (
    FLAG,
    INTEGER,
    NUMBER,
    TEXT,
    TEXTS,
    FileNotes,
    Form,
    Schema,
    WrongKind,
    is_near,
    list_of,
    refuse_larger,
    unreadable_at,
)
from surfaces.trees import tree_of

_CAPITAL: Final = re.compile(r"_([a-z])")
MAX_LOOKED_AT: Final = 200  # unknown keys of a mapping; to compare each with all takes time
R = TypeVar("R", bound="FileRecord")


@dataclass(frozen=True, slots=True)
class Named:
    """The key of a field, where that is not its name in camel case."""

    key: str


@dataclass(frozen=True, slots=True)
class Also:
    """Another key of the same field, which may have a form of its own."""

    key: str
    form: Form | None = None


class FileRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A mapping with known keys; its docstring is the description of its schema.

    `label` is how sentences call it, `form` the mapping that is shown where there is none,
    `elsewhere` what the same is called in other tools. An `open` record may hold other keys; then a
    key that is nearly a known one is told. `collects` notes what is wrong, value by value.
    """

    label: ClassVar[str] = "a mapping"
    form: ClassVar[str] = ""
    elsewhere: ClassVar[Mapping[str, str]] = {}
    informational: ClassVar[tuple[str, ...]] = ()  # keys without a value here
    is_lenient: ClassVar[bool] = False
    is_open: ClassVar[bool] = False
    collects: ClassVar[bool] = False
    largest: ClassVar[tuple[int, int]] = (0, 0)  # values and characters of each; 0 is any number


class _Field(NamedTuple):
    attribute: str
    keys: tuple[tuple[str, Form], ...]  # the first is the one to write
    is_required: bool
    description: str


class _Fields(NamedTuple):
    listed: tuple[_Field, ...]
    by_key: Mapping[str, str]  # of a key in folded case


def read_record(kind: type[R], tree: Tree, notes: FileNotes | None = None) -> R:
    """Return a mapping as a record; raise Unreadable at the first value that does not fit."""
    notes = notes or FileNotes()
    if tree.kind is not Kind.MAP:
        shown = f"{kind.label} is a mapping: {kind.form}" if kind.form else ""
        raise unreadable_at(tree, shown or f"{kind.label} must be a mapping")
    values = _values(kind, tree, notes)
    try:
        return kind(**values)
    except ValueError as error:
        raise unreadable_at(tree, str(error)) from None


def _values(kind: type[FileRecord], tree: Tree, notes: FileNotes) -> dict[str, object]:
    """Return the values that are there, by attribute."""
    fields = fields_of(kind)
    given = _values_by_key(kind, fields, tree, notes)
    values: dict[str, object] = {}
    for each in fields.listed:
        try:
            found = _value(kind, each, given, tree, notes)
        except Unreadable as error:
            if kind.is_lenient and isinstance(error, WrongKind):
                notes.add_value(error)
            elif kind.collects:
                notes.problems.append(error)
            else:  # a lenient record that holds this one cannot go on without it
                raise Unreadable(error.reason, line=error.line, column=error.column) from None
        else:
            values.update(found)
    return values


def _values_by_key(
    kind: type[FileRecord], fields: _Fields, tree: Tree, notes: FileNotes
) -> dict[str, Tree]:
    """Return the values by the key that is to be written; tell of other keys."""
    given: dict[str, Tree] = {}
    others: list[tuple[str, Tree]] = []
    for name, value in tree.pairs.items():
        key = fields.by_key.get(name.casefold())
        if key is None:
            others.append((name, value))
        elif name == key or key not in given:
            given[key] = value
    for name, value in others[:MAX_LOOKED_AT]:
        if (notes.is_full and kind.is_lenient) or (
            kind.is_open and not is_near(name, fields.by_key.values())
        ):
            continue
        ignored = ", which is ignored" if kind.is_lenient else ""
        reason = f'{kind.label} has no key "{name[:40]}"{ignored}; {_advice(kind, name)}'
        if not kind.is_lenient:
            raise unreadable_at(value, reason)
        notes.add_unknown(reason, value)
    return given


def _advice(kind: type[FileRecord], name: str) -> str:
    known = kind.elsewhere.get(name.lower().replace("-", "").replace("_", ""))
    return f"write {known}" if known else nearest_advice(name, fields_of(kind).by_key.values())


def _value(
    kind: type[FileRecord], each: _Field, given: Mapping[str, Tree], tree: Tree, notes: FileNotes
) -> dict[str, object]:
    """Return the value of a field by its attribute, nothing for one that is missing."""
    there = [
        (key, form, given[key])
        for key, form in each.keys
        if key in given and not form.is_missing(given[key])
    ]
    if len(there) > 1:
        names = " and ".join(sorted((key for key, _, _ in there), key=len, reverse=True))
        raise unreadable_at(there[0][2], f"use one of {names}")
    if there:
        key, form, value = there[0]
        if kind.largest[0]:
            refuse_larger(value, "value", *kind.largest)
        return {each.attribute: form.read(value, key, notes)}
    if not each.is_required:
        return {}
    key, form = each.keys[0]
    made = form.read(tree_of("", at=tree), key, notes)
    if made == "":
        shown = f", as in {kind.form}" if kind.form else ""
        raise unreadable_at(tree, f"{kind.label} requires {key}{shown}")
    return {each.attribute: made}


@cache
def fields_of(kind: type[FileRecord]) -> _Fields:
    """Return how the fields of a record are read."""
    hints = get_type_hints(kind, include_extras=True)
    listed: list[_Field] = []
    for each in msgspec.structs.fields(kind):
        hint = hints[each.name]
        extras = getattr(hint, "__metadata__", ())
        of_type = hint.__origin__ if get_origin(hint) is Annotated else hint
        form = next((one for one in extras if isinstance(one, Form)), None) or _form_of(of_type)
        named = next((one.key for one in extras if isinstance(one, Named)), "")
        key = named or _CAPITAL.sub(lambda at: at[1].upper(), each.name)
        others = ((one.key, one.form or form) for one in extras if isinstance(one, Also))
        text = next((one for one in extras if isinstance(one, str)), "")
        listed.append(_Field(each.name, ((key, form), *others), each.required, text))
    by_key = {key.casefold(): key for each in listed for key, _ in each.keys}
    return _Fields(tuple(listed), by_key | {key.casefold(): key for key in kind.informational})


def _form_of(hint: Any) -> Form:
    """Return the form of a type."""
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, types.UnionType):
        return _form_of(next(each for each in arguments if each is not type(None)))
    if kind is tuple:
        return list_of(_form_of(arguments[0]))
    if kind in _PLAIN:
        return _PLAIN[kind]
    if isinstance(kind, type) and issubclass(kind, FileRecord):
        return record_of(kind)
    raise TypeError(f"{hint!r} has no form")


def record_of(kind: type[FileRecord]) -> Form:
    """Return the form of a mapping with known keys."""
    return Form(lambda tree, _, notes: read_record(kind, tree, notes), {"$ref": kind})


_PLAIN: Final[Mapping[Any, Form]] = {
    str: TEXT, bool: FLAG, float: NUMBER, int: INTEGER, Mapping: TEXTS,
}  # fmt: skip


def records_schema(*kinds: type[FileRecord]) -> Schema:
    """Return the JSON Schema 2020-12 of records, each below `$defs`, with those that they hold."""
    waiting, made = list(kinds), dict[str, Schema]()

    def resolve(schema: Any) -> Any:
        if isinstance(schema, list):
            return [resolve(each) for each in schema]
        if not isinstance(schema, dict):
            return schema
        found = {key: resolve(each) for key, each in schema.items() if key != "$ref"}
        if (other := schema.get("$ref")) is not None:
            waiting.append(other)
            found["$ref"] = reference(other)
        return found

    while waiting:
        each = waiting.pop()
        if each.__name__ not in made:
            made[each.__name__] = {}
            made[each.__name__] = resolve(_mapping_schema(each))
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, "$defs": dict(sorted(made.items()))}


def reference(kind: type[FileRecord]) -> str:
    """Return where the schema of a record is in that of `records_schema`."""
    return f"#/$defs/{kind.__name__.lstrip('_')}"


def _mapping_schema(kind: type[FileRecord]) -> Schema:
    fields = fields_of(kind).listed
    properties: dict[str, Schema] = {key: {} for key in kind.informational}
    for each in fields:
        described = {"description": each.description} if each.description else {}
        properties |= {key: form.schema | described for key, form in each.keys}
    required = [each.keys[0][0] for each in fields if each.is_required]
    return {
        "type": "object",
        "description": cleandoc(kind.__doc__ or ""),
        "properties": properties,
        **({"required": required} if required else {}),
        **({} if kind.is_open else {"additionalProperties": False}),
    }
