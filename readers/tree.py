"""A value read from a file: its kind, spelling and position.

Readers of all formats (CUE, YAML, JSON, TOML …) make the same tree, so that code that checks or
shapes it does not depend on the format, names the position of every error and keeps every spelling
(`1.10`, `0123`, `1e3`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final


class Kind(StrEnum):
    MAP = "map"
    LIST = "list"
    STRING = "string"
    NUMBER = "number"
    BOOL = "bool"
    NULL = "null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """`@name(body)` behind a field of CUE; kept, not evaluated."""

    name: str
    body: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """`text`: a string's content, or a number's or boolean's spelling in the file.

    `line` and `column` are 1-based, of the value; 0 where the format has no places.
    """

    kind: Kind
    text: str = ""
    pairs: Mapping[str, Tree] = field(default_factory=dict)  # of a map, in the file's order
    items: tuple[Tree, ...] = ()  # of a list
    line: int = 0
    column: int = 0
    attributes: tuple[Attribute, ...] = ()  # of the field that holds it

    def get(self, key: str) -> Tree | None:
        """Return the member of a map, or None; None also for other kinds."""
        return self.pairs.get(key)

    def walk(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Tree]]:
        """Yield this value and all below it, parents first; list items by their index."""
        yield path, self
        for key, value in self.pairs.items():
            yield from value.walk((*path, key))
        for index, value in enumerate(self.items):
            yield from value.walk((*path, str(index)))

    def plain(self) -> Any:
        """Return the value as dict, list, str, int, float, bool or None."""
        if self.kind is Kind.MAP:
            return {key: value.plain() for key, value in self.pairs.items()}
        if self.kind is Kind.LIST:
            return [value.plain() for value in self.items]
        return _SCALARS[self.kind](self.text)


def _number(text: str) -> int | float:
    try:
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
    except ValueError:
        return float(text)


_SCALARS: Final[Mapping[Kind, Callable[[str], Any]]] = {
    Kind.STRING: str,
    Kind.NUMBER: _number,
    Kind.BOOL: lambda text: text == "true",
    Kind.NULL: lambda _text: None,
}
