"""The document that a sink writes, from flat settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from readers.tree import Kind, Tree
from sync_stack.core.shaping.errors import ShapingError
from sync_stack.formats.registry import formats

_MAX_SEGMENTS: Final = 40  # deeper keys stay as they are: readers stop at 64
_NUMBER: Final = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_Nested: TypeAlias = "dict[str, _Nested | str]"


def render(
    values: Mapping[str, str] | Tree,
    file_format: str,
    *,
    nested: bool = False,
    native: bool = False,
) -> bytes:
    """Return the document with the sorted flat keys `values`, in UTF-8.

    Raise ShapingError: `unknown_format` for a format that is only read, `key_invalid` for a key or
    value that the format cannot express.
    """
    write = formats[file_format].render if file_format in formats else None
    if write is None:
        raise ShapingError("unknown_format", f"{file_format!r} is no format that can be written")
    if isinstance(values, Tree):
        return write(values)
    return write(shaped_tree(values, nested=nested, native=native))


def shaped_tree(values: Mapping[str, str], *, nested: bool = False, native: bool = False) -> Tree:
    """Return flat settings as a sorted map.

    `nested`: dots become levels and indices lists, where that flattens to the same keys. `native`:
    text that looks like a number or boolean is one, if the format reads the same spelling back.
    """
    made: _Nested = {}
    for key in sorted(values):
        level, name = _nest(made, key) if nested else (made, key)
        level[name] = values[key]
    pairs = {key: _tree(value, native=native, lists=nested) for key, value in made.items()}
    return Tree(kind=Kind.MAP, pairs=pairs)


def _nest(root: _Nested, key: str) -> tuple[_Nested, str]:
    """Return the map and member for a key; a key below an existing value keeps its dots."""
    *above, last = segments = key.split(".")
    if len(segments) > _MAX_SEGMENTS:
        return root, key
    level = root
    for index, segment in enumerate(above):
        inner = level.setdefault(segment, {})
        if isinstance(inner, str):
            return level, ".".join(segments[index:])
        level = inner
    return level, last


def _tree(value: _Nested | str, *, native: bool, lists: bool) -> Tree:
    if isinstance(value, str):
        return Tree(kind=_kind(value) if native else Kind.STRING, text=value)
    pairs = {key: _tree(inner, native=native, lists=lists) for key, inner in value.items()}
    indices = [str(index) for index in range(len(pairs))]
    if lists and pairs and pairs.keys() == set(indices):
        return Tree(kind=Kind.LIST, items=tuple(pairs[index] for index in indices))
    return Tree(kind=Kind.MAP, pairs=pairs)


def _kind(text: str) -> Kind:
    if text in ("true", "false"):
        return Kind.BOOL
    return Kind.NUMBER if _NUMBER.fullmatch(text) else Kind.STRING
