"""The nodes of schema examples (reference: control-plane 6.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import re2

from readers import Unreadable
from readers.tree import Kind, Tree
from surfaces.mock_files.template_checks import check_path, check_templates
from surfaces.model import (
    Compose,
    Generator,
    JsonScalar,
    Resolve,
    Template,
    ValueNode,
)
from surfaces.trees import is_small, items, member, members, nonblank_member, text_of

TYPES: Final = ("object", "array", "string", "integer", "number", "boolean", "null")
GENERATORS: Final = ("uuid", "timestamp", "int", "string", "pick", "boolean")
MAX_LENGTH: Final = 10_000  # of a generated string
_SOURCES: Final = ("gen", "resolve", "compose", "template")
NODE_KEYS: Final = (
    "type", "properties", "required", "items", "enum", "const", "example", "pattern", "minimum",
    "maximum", "minLength", "maxLength", *_SOURCES,
)  # fmt: skip
FOLDED_KEYS: Final = frozenset(key.lower() for key in NODE_KEYS)
_QUIET: Final = re2.Options()
_QUIET.log_errors = False


def unreadable_at(at: Tree, reason: str) -> Unreadable:
    return Unreadable(reason, line=at.line or None, column=at.column or None)


def read_node(tree: Tree) -> ValueNode:
    """Return a node; raise Unreadable at the first value that does not fit.

    A literal in place of a node is an example of the value, and its type the constraint.
    """
    if is_literal(tree):
        return _literal_node(tree)
    kind = text_of(nonblank_member(tree, "type"))
    if kind and kind not in TYPES:
        known = ", ".join(TYPES)
        raise unreadable_at(
            tree,
            f'"{kind[:40]}" is not a type; use one of {known}, or write the value below example',
        )
    below = member(tree, "items")
    return ValueNode(
        type=kind,
        properties={name: read_node(each) for name, each in members(member(tree, "properties"))},
        required=tuple(text_of(each) for each in items(member(tree, "required"))),
        items=read_node(below) if below else None,
        enum=tuple(_scalar(each) for each in items(member(tree, "enum"))),
        const=_literal(tree, "const"),
        example=_literal(tree, "example"),
        pattern=read_pattern(member(tree, "pattern")),
        minimum=_number(tree, "minimum"),
        maximum=_number(tree, "maximum"),
        min_length=_whole(tree, "minLength"),
        max_length=_whole(tree, "maxLength"),
        source=_source(tree),
    )


def is_literal(tree: Tree) -> bool:
    """Return whether this is a value and not a node, which has at least one key of nodes."""
    if tree.kind is not Kind.MAP or not tree.pairs:
        return tree.kind is not Kind.MAP
    return not any(key.lower() in FOLDED_KEYS for key in tree.pairs)


def _literal_node(tree: Tree) -> ValueNode:
    if tree.kind is Kind.MAP:
        below = {name: read_node(each) for name, each in members(tree)}
        return ValueNode(type="object", properties=below)
    if tree.kind is Kind.LIST:
        first = next(iter(tree.items), None)
        example = (tree.plain(),) if is_small(tree, values=2_000, characters=100_000) else ()
        return ValueNode(type="array", items=read_node(first) if first else None, example=example)
    if tree.kind is Kind.STRING and "{{" in tree.text:
        return ValueNode(type="string", source=_template(tree))
    value = tree.plain()
    kind = "integer" if isinstance(value, int) else "number"
    return ValueNode(type=_SCALARS.get(tree.kind, kind), example=(value,))


_SCALARS: Final = {Kind.STRING: "string", Kind.BOOL: "boolean", Kind.NULL: ""}


def read_pattern(tree: Tree | None) -> str:
    """Return a regular expression (RE2); raise Unreadable."""
    text = text_of(tree)
    if tree is None or not text:
        return ""
    if len(text) > _MAX_PATTERN or not is_pattern(text):
        raise unreadable_at(tree, f'"{text[:80]}" is not a regular expression (RE2)')
    return text


_MAX_PATTERN: Final = 2_000


def is_pattern(text: str) -> bool:
    try:
        re2.compile(text, options=_QUIET)
    except re2.error:
        return False
    return True


def _source(tree: Tree) -> Generator | Resolve | Compose | Template | None:
    given = [name for name in _SOURCES if member(tree, name) is not None]
    if not given:
        return None
    if len(given) > 1:
        raise unreadable_at(tree, f"only one of {', '.join(given)} may be set")
    value = member(tree, given[0])
    assert value is not None
    return _READERS[given[0]](value)


def read_generator(tree: Tree) -> Generator:
    kind = text_of(member(tree, "kind"))
    if kind not in GENERATORS:
        known = ", ".join(GENERATORS)
        raise unreadable_at(tree, f'gen.kind "{kind[:40]}" is not known; use one of {known}')
    options = tuple(text_of(each) for each in items(member(tree, "options")))
    if kind == "pick" and not options:
        raise unreadable_at(tree, "gen.kind pick requires options")
    length = _whole(tree, "length")
    if length is not None and not 0 <= length <= MAX_LENGTH:
        raise unreadable_at(tree, f"gen.length must be 0 to {MAX_LENGTH}")
    low, high = _whole(tree, "min"), _whole(tree, "max")
    made = Generator(
        kind=kind,
        **_affixes(tree),
        layout=text_of(member(tree, "layout")),
        minimum=0 if low is None else low,
        maximum=2**31 - 1 if high is None else high,
        length=12 if length is None else length,
        options=options,
    )
    if made.minimum > made.maximum:
        raise unreadable_at(tree, "gen.min is larger than gen.max")
    return made


def _resolve(tree: Tree) -> Resolve:
    path = text_of(member(tree, "path"))
    if not path:
        raise unreadable_at(tree, "resolve requires path")
    check_path(member(tree, "path"))
    fallback = member(tree, "fallback")
    return Resolve(
        path=path, fallback=None if fallback is None else text_of(fallback), **_affixes(tree)
    )


def _affixes(tree: Tree) -> dict[str, str]:
    return {name: text_of(member(tree, name)) for name in ("prefix", "suffix")}


def _compose(tree: Tree) -> Compose:
    return Compose(parts=tuple(_part(each) for each in items(tree)))


def _part(tree: Tree) -> str | Generator | Resolve:
    if tree.kind is not Kind.MAP:
        return text_of(tree)
    if (generator := member(tree, "gen")) is not None:
        return read_generator(generator)
    if (resolved := member(tree, "resolve")) is not None:
        return _resolve(resolved)
    raise unreadable_at(tree, "a part of compose is a text, {gen: …} or {resolve: …}")


def _template(tree: Tree) -> Template:
    check_templates(tree)
    return Template(text=text_of(tree))


_READERS: Final[Mapping[str, Callable[[Tree], Generator | Resolve | Compose | Template]]] = {
    "gen": read_generator,
    "resolve": _resolve,
    "compose": _compose,
    "template": _template,
}


def _scalar(tree: Tree) -> JsonScalar:
    if tree.kind in (Kind.MAP, Kind.LIST):
        raise unreadable_at(tree, "enum takes single values only")
    value: JsonScalar = tree.plain()
    return value


def _literal(tree: Tree, name: str) -> tuple[object, ...]:
    found = tree.get(name)
    if found is None:
        return ()
    if not is_small(found, values=2_000, characters=100_000):
        raise unreadable_at(found, f"{name} is too large")
    return (found.plain(),)


def _number(tree: Tree, name: str) -> float | None:
    found = member(tree, name)
    if found is None:
        return None
    if found.kind is not Kind.NUMBER:
        raise unreadable_at(found, f"{name} must be a number")
    number: float = found.plain()
    return number


def _whole(tree: Tree, name: str) -> int | None:
    found = _number(tree, name)
    if found is not None and not isinstance(found, int):
        raise unreadable_at(tree, f"{name} must be an integer")
    return found
