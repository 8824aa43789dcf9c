"""The notation of grammars: a line for each kind of object, with its members.

    parameter: $ref=ref name=text! in=query|header|path! required=flag schema=schema content={media}

A member without a type may be anything, `!` says that it must be there. `a|b` is one of these
texts, `[t]` a list, `{t}` a mapping, `{t:status}` one whose keys are checked, `t/u` one or the
other, `kind` an object of a kind of the grammar. `+kind` stands for the members of another kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from readers.tree import Kind

SCALARS: Final[Mapping[str, tuple[Kind, str]]] = {
    "text": (Kind.STRING, "a text"),
    "ref": (Kind.STRING, "a text"),
    "pattern": (Kind.STRING, "a regular expression"),
    "format": (Kind.STRING, "a text"),
    "media": (Kind.STRING, "a media type"),
    "flag": (Kind.BOOL, "true or false"),
    "number": (Kind.NUMBER, "a number"),
    "count": (Kind.NUMBER, "a whole number"),
    "null": (Kind.NULL, "null"),
    "list": (Kind.LIST, "a list"),
    "mapping": (Kind.MAP, "a mapping"),
}
FOREIGN: Final = "foreign "  # a kind with a schema of another language


@dataclass(frozen=True, slots=True)
class MemberType:
    """What a member may be: `name` is of a scalar, of a kind of object, "" for lists and maps.

    `inner` is of the items or values, `keys` how the keys of a mapping are checked.
    """

    node: Kind
    words: str
    name: str = ""
    choices: tuple[str, ...] = ()
    inner: tuple[MemberType, ...] = ()
    keys: str = ""


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """An object: its members, of no type where they may be anything, and those it must have."""

    name: str
    shown: str
    members: Mapping[str, tuple[MemberType, ...]]
    required: tuple[str, ...]

    @property
    def is_schema(self) -> bool:
        return "enum" in self.members and "type" in self.members


@dataclass(frozen=True, slots=True)
class Grammar:
    """The kinds of objects of a format by name; `document` is the whole.

    `free` is how keys begin that may be anywhere.
    """

    kinds: Mapping[str, ObjectKind]
    free: tuple[str, ...] = ("x-",)


def read_grammar(text: str, *, free: tuple[str, ...] = ("x-",)) -> Grammar:
    """Return the grammar of a table."""
    written = dict(re.findall(r"^([\w-]+): *(.*(?:\n[ \t]+.*)*)", text, re.MULTILINE))

    def words(kind: str) -> list[str]:
        found: list[str] = []
        for word in written[kind].split():
            found += words(word[1:]) if word.startswith("+") else [word]
        return found

    kinds = {}
    for kind in written:
        members, required = {}, []
        for word in words(kind):
            name, _, type_text = word.rstrip("!").partition("=")
            members[name] = _types(type_text, written)
            required += [name] if word.endswith("!") else []
        name = kind.replace("-", " ").removeprefix(FOREIGN)
        article = "the" if kind == "document" else "an" if name[0] in "aeiou" else "a"
        kinds[kind] = ObjectKind(kind, f"{article} {name}", members, tuple(required))
    return Grammar(kinds, free)


def _types(text: str, kinds: Mapping[str, str]) -> tuple[MemberType, ...]:
    return tuple(_type(each, kinds) for each in re.findall(r"(?:\{.*?\}+|\[.*?\]|[^/])+", text))


def _type(text: str, kinds: Mapping[str, str]) -> MemberType:
    if text.startswith("["):
        return MemberType(Kind.LIST, "a list", inner=_types(text[1:-1], kinds))
    if text.startswith("{"):
        inner, _, keys = text[1:-1].partition(":")
        return MemberType(Kind.MAP, "a mapping", inner=_types(inner, kinds), keys=keys)
    if "|" in text:
        return MemberType(Kind.STRING, "a text", choices=tuple(text.split("|")))
    if text in kinds:
        return MemberType(Kind.MAP, "a mapping", name=text)
    return MemberType(*SCALARS[text], name=text)
