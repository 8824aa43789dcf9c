"""Maps of texts in files of mock/, and headers, which may also be a list of names and values.

headers: {x-tenant: acme}
headers: [{name: x-tenant, value: acme}, {name: accept, values: [text/plain, text/csv]}]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from readers.tree import Kind, Tree
from surfaces.mock_files.value_nodes import unreadable_at
from surfaces.trees import is_blank, items, member, members, text_of, tree_of

HEADER_KEYS: Final = ("name", "value", "values")
_FORM: Final = "write {x-tenant: acme} or [{name: x-tenant, value: acme}]"
_ONE: Final = "a mock answers one Set-Cookie header; keep one of them"


def text_map(tree: Tree | None) -> dict[str, str]:
    """Return a map of texts; raise Unreadable for other values."""
    if is_blank(tree) or tree is None:
        return {}
    if tree.kind is not Kind.MAP:
        raise unreadable_at(tree, "expected a mapping of texts")
    for each in tree.pairs.values():
        if each.kind in (Kind.MAP, Kind.LIST):
            raise unreadable_at(each, "expected a text")
    return {name: each.text for name, each in members(tree)}


def header_map(tree: Tree | None) -> dict[str, str]:
    """Return headers; the values of one that occurs several times are joined by commas."""
    found: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for name, value in _headers(tree):
        known = spelled.setdefault(name.lower(), name)
        if any(each.kind in (Kind.MAP, Kind.LIST) for each in items(value)):
            raise unreadable_at(value, f"the value of a header must be a text: {_FORM}")
        text = ", ".join(text_of(each) for each in items(value))
        if known in found and name.lower() == "set-cookie":
            raise unreadable_at(value, _ONE)
        found[known] = f"{found[known]}, {text}" if known in found else text
    return found


def header_nodes(tree: Tree | None) -> Tree | None:
    """Return the headers of a schema as a node; a list of names and values becomes one.

    `value` is then a template; instead of it, an entry may hold the keys of a node.
    """
    if tree is None or tree.kind is not Kind.LIST:
        return tree
    properties: dict[str, Tree] = {}
    for entry in tree.items:
        name = _name(entry)
        value = member(entry, "value")
        keys = {key: each for key, each in members(entry) if key.lower() not in HEADER_KEYS}
        properties[name] = (
            Tree(kind=Kind.MAP, pairs=keys, line=entry.line, column=entry.column)
            if value is None
            else tree_of({"type": "string", "template": text_of(value)}, at=entry)
        )
    node = Tree(kind=Kind.MAP, pairs=properties, line=tree.line, column=tree.column)
    pairs = {"type": tree_of("object", at=tree), "properties": node}
    return Tree(kind=Kind.MAP, pairs=pairs, line=tree.line, column=tree.column)


def _headers(tree: Tree | None) -> Iterator[tuple[str, Tree]]:
    if is_blank(tree) or tree is None:
        return
    if tree.kind is Kind.MAP:
        yield from members(tree)
        return
    if tree.kind is not Kind.LIST:
        raise unreadable_at(tree, f"headers must be a mapping or a list: {_FORM}")
    for entry in tree.items:
        name = _name(entry)
        for key, _ in members(entry):
            if key.lower() not in HEADER_KEYS:
                raise unreadable_at(entry, f'a header has no key "{key[:40]}": {_FORM}')
        yield name, member(entry, "value") or member(entry, "values") or tree_of("", at=entry)


def _name(entry: Tree) -> str:
    name = text_of(member(entry, "name")).strip()
    if not name:
        raise unreadable_at(entry, f"a header of a list needs a name: {_FORM}")
    return name
