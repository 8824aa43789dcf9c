"""Headers as mock files have them: a mapping, or a list of names and values.

headers: {x-tenant: acme}
headers: [{name: x-tenant, value: acme}, {name: accept, values: [text/plain, text/csv]}]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Final

from readers.tree import Kind, Tree
from surfaces.forms import RAW_TEXT, FileNotes, Form, list_of, unreadable_at
from surfaces.records import Also, FileRecord, fields_of, read_record
from surfaces.trees import is_blank, items, member, members, text_of, tree_of

_FORM: Final = "write {x-tenant: acme} or [{name: x-tenant, value: acme}]"
_ONE: Final = "a mock answers one Set-Cookie header; keep one of them"
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+|.*\{\{.*", re.ASCII)


class HeaderEntry(FileRecord, frozen=True, kw_only=True):
    """A header of a list."""

    label: ClassVar = "a header"
    form: ClassVar = "{name: x-tenant, value: acme}"
    name: Annotated[str, "its name"]
    value: Annotated[tuple[str, ...], list_of(RAW_TEXT), Also("values"), "its value or values"] = ()


def read_headers(tree: Tree, _key: str, notes: FileNotes) -> Mapping[str, str]:
    """Return headers; the values of one that occurs several times are joined by commas."""
    found: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for name, text, at in _headers(tree, notes):
        if _NAME.fullmatch(name) is None:
            notes.add_value(unreadable_at(at, f'"{name[:40]}" is not the name of a header'))
            continue
        known = spelled.setdefault(name.lower(), name)
        if known in found and name.lower() == "set-cookie":
            raise unreadable_at(at, _ONE)
        found[known] = f"{found[known]}, {text}" if known in found else text
    return found


def header_nodes(tree: Tree) -> Tree:
    """Return the headers of a schema as a node; a list of names and values becomes one.

    `value` is then a template; instead of it, an entry may hold the keys of a node.
    """
    if tree.kind is not Kind.LIST:
        return tree
    properties: dict[str, Tree] = {}
    own = fields_of(HeaderEntry).by_key
    for entry in tree.items:
        name = text_of(member(entry, "name")).strip()
        if not name:
            raise unreadable_at(entry, f"a header of a list needs a name: {_FORM}")
        value = member(entry, "value")
        keys = {key: each for key, each in members(entry) if key.casefold() not in own}
        properties[name] = (
            Tree(kind=Kind.MAP, pairs=keys, line=entry.line, column=entry.column)
            if value is None
            else tree_of({"type": "string", "template": text_of(value)}, at=entry)
        )
    node = Tree(kind=Kind.MAP, pairs=properties, line=tree.line, column=tree.column)
    pairs = {"type": tree_of("object", at=tree), "properties": node}
    return Tree(kind=Kind.MAP, pairs=pairs, line=tree.line, column=tree.column)


def _headers(tree: Tree, notes: FileNotes) -> Iterator[tuple[str, str, Tree]]:
    """Yield name, value and place of each header."""
    if is_blank(tree):
        return
    if tree.kind is Kind.MAP:
        for name, value in members(tree):
            if any(each.kind in (Kind.MAP, Kind.LIST) for each in items(value)):
                raise unreadable_at(value, f"the value of a header must be a text: {_FORM}")
            yield name, ", ".join(text_of(each) for each in items(value)), value
        return
    if tree.kind is not Kind.LIST:
        raise unreadable_at(tree, f"headers must be a mapping or a list: {_FORM}")
    for entry in tree.items:
        given = read_record(HeaderEntry, entry, notes)
        yield given.name.strip(), ", ".join(given.value), entry


_VALUE: Final = {"type": ["string", "number", "boolean", "array"]}
HEADERS: Final = Form(
    read_headers,
    {
        "anyOf": [
            {"type": "object", "additionalProperties": _VALUE},
            {"type": "array", "items": {"$ref": HeaderEntry}},
        ]
    },
)
