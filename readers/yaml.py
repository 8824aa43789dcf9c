"""YAML from outside: the 1.2 core schema, with positions, bounded in depth and alias expansion.

The text is read event by event (PyYAML's C parser is not recursive there), so that neither deep
nesting nor anchors that multiply can hurt. Tags beyond the core schema are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import yaml

from readers import Unreadable
from readers.tree import Kind

MAX_DEPTH: Final = 64
MAX_ALIAS_EXPANSIONS: Final = 10_000
MAX_NODES: Final = 1_000_000
_TAG: Final = "tag:yaml.org,2002:"
_CORE_TAGS: Final = {
    f"{_TAG}{name}" for name in ["str", "int", "float", "bool", "null", "map", "seq"]
}
_NULL: Final = re.compile(r"^(?:null|Null|NULL|~|)\Z")
_BOOL: Final = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)\Z")
_INT: Final = re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z")
_FLOAT: Final = re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NOT_FINITE: Final = re.compile(r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")
_DIGITS_TAKEN: Final = 640  # by Python, whatever its limit is set to
_NOT_ALWAYS_TEXT: Final = frozenset("~nNtTfF+-.0123456789")
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "int": int,
    "float": (int, float),
    "bool": bool,
    "null": type(None),
}


@dataclass(slots=True, kw_only=True)
class Node:
    """A value of the document with its place (1-based).

    Exactly one is set: `text` (a scalar's source text), `items` or `pairs`. Anchored nodes are
    shared: a walk would visit them once per alias.
    """

    line: int
    column: int
    tag: str = ""
    plain: bool = False
    text: str | None = None
    items: list[Node] | None = None
    pairs: list[tuple[Node, Node]] | None = None
    anchored: bool = False

    def get(self, key: str) -> Node | None:
        """The value of a key of a mapping; None when absent or when this is not a mapping."""
        return next((value for name, value in self.pairs or [] if name.text == key), None)

    def names(self) -> list[str]:
        return [name.text or "" for name, _ in self.pairs or []]

    @property
    def is_null(self) -> bool:
        return self.text is not None and self.scalar() is None

    def scalar(self) -> Any:
        """A string, int, float, bool or None by the core schema. Raises Unreadable."""
        if self.text is None:
            raise self.unreadable("expected a single value")
        try:
            return _scalar(self.text, self.tag, plain=self.plain)
        except ValueError as error:
            raise self.unreadable(str(error)) from None

    def kind_and_text(self) -> tuple[Kind, str]:
        """Return a scalar's kind with a string's content or a number's spelling; raise Unreadable.

        Infinities and NaN are unreadable as well.
        """
        if self.text is not None and _is_text(self.text, self.tag, plain=self.plain):
            return Kind.STRING, self.text
        value = self.scalar()
        if value is None:
            return Kind.NULL, ""
        if isinstance(value, bool):
            return Kind.BOOL, "true" if value else "false"
        if isinstance(value, str):
            return Kind.STRING, value
        if isinstance(value, float) and not math.isfinite(value) and "." in (self.text or "")[:2]:
            raise self.unreadable(f"{self.text} is not a number that can be kept")
        return Kind.NUMBER, self.text or ""

    def data(self) -> Any:
        """Dicts, lists and scalars. Raises Unreadable past the limit of alias expansions."""
        return _Plain(MAX_ALIAS_EXPANSIONS).of(self).value

    def unreadable(self, reason: str) -> Unreadable:
        return Unreadable(reason, line=self.line, column=self.column)


def read_yaml(
    text: str, *, max_alias_expansions: int = MAX_ALIAS_EXPANSIONS, max_nodes: int = MAX_NODES
) -> Node:
    """The one document of a text; an empty text is a null scalar.

    Raises Unreadable with a position: bad syntax, a duplicate or non-scalar key, an unknown tag,
    nesting beyond 64, more than `max_alias_expansions` or `max_nodes`, a second document.
    """
    try:
        builder = _Builder(yaml.parse(text, Loader=_Loader), min(max_nodes, MAX_NODES))
        root = builder.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = {} if mark is None else {"line": mark.line + 1, "column": mark.column + 1}
        raise Unreadable(error.problem or "not YAML", **place) from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise Unreadable(" ".join(str(error).split())) from None
    # for the whole document, whatever is read of it later
    if builder.anchors:
        _Plain(max_alias_expansions).of(root)
    else:
        _check_scalars(root)
    return root


_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Builder:
    """A tree of nodes from parser events, without recursion."""

    def __init__(self, events: Iterable[Any], max_nodes: int) -> None:
        self.events = events
        self.budget = max_nodes
        self.anchors: dict[str, Node] = {}
        self.root: Node | None = None
        self.open: list[Node] = []
        self.keys: list[Node | None] = []  # of each open mapping, the key without a value yet
        self.taken: list[set[str]] = []  # of each open node, the keys so far
        self.documents = 0

    def document(self) -> Node:
        takes: dict[type[Any], Callable[[Any], None]] = {
            yaml.ScalarEvent: lambda event: self._place(
                self._node(event, text=event.value, plain=event.implicit[0])
            ),
            yaml.AliasEvent: self._alias,
            yaml.SequenceStartEvent: lambda event: self._enter(self._node(event, items=[])),
            yaml.MappingStartEvent: lambda event: self._enter(self._node(event, pairs=[])),
            yaml.SequenceEndEvent: self._leave,
            yaml.MappingEndEvent: self._leave,
            yaml.DocumentStartEvent: self._one_document,
        }
        for event in self.events:
            if take := takes.get(type(event)):  # none for ends and starts of the stream
                take(event)
        return self.root or Node(line=1, column=1, plain=True, text="")

    def _leave(self, _event: Any) -> None:
        for stack in (self.open, self.keys, self.taken):
            stack.pop()

    def _one_document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            raise _unreadable(event, "only one document is allowed")

    def _alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            raise _unreadable(event, f"unknown alias *{event.anchor}")
        self._place(self.anchors[event.anchor])

    def _node(self, event: Any, **content: Any) -> Node:
        tag = event.tag or ""
        if tag not in ("", "!") and tag not in _CORE_TAGS:
            raise _unreadable(event, f"the tag {tag} is not allowed")
        mark = event.start_mark
        self.budget -= 1
        if self.budget < 0:
            raise _unreadable(event, "too many values for one document")
        node = Node(line=mark.line + 1, column=mark.column + 1, tag=tag, **content)
        if event.anchor:
            node.anchored = True
            self.anchors[event.anchor] = node
        return node

    def _enter(self, node: Node) -> None:
        self._place(node)
        self.open.append(node)
        self.keys.append(None)
        self.taken.append(set())
        if len(self.open) > MAX_DEPTH:
            raise node.unreadable(f"nested more than {MAX_DEPTH} deep")

    def _place(self, node: Node) -> None:
        if not self.open:
            self.root = node
            return
        parent, key = self.open[-1], self.keys[-1]
        if parent.items is not None:
            parent.items.append(node)
        elif key is None:
            self.keys[-1] = self._new_key(node)
        elif parent.pairs is not None:
            parent.pairs.append((key, node))
            self.keys[-1] = None

    def _new_key(self, key: Node) -> Node:
        if key.text is None:
            raise key.unreadable("a key must be a single value")
        if key.text in self.taken[-1]:
            raise key.unreadable(f'the key "{key.text[:80]}" occurs twice')
        self.taken[-1].add(key.text)
        return key


def _unreadable(event: Any, reason: str) -> Unreadable:
    mark = event.start_mark
    return Unreadable(reason, line=mark.line + 1, column=mark.column + 1)


def _check_scalars(node: Node) -> None:
    """Raises Unreadable for a scalar that is not what its tag says, or no number of any use."""
    for _key, value in node.pairs or ():
        _check_scalars(value)
    for item in node.items or ():
        _check_scalars(item)
    if node.text is not None and (node.tag or len(node.text) > _DIGITS_TAKEN):
        node.scalar()


class _Plain:
    """Conversion to plain values; an anchored node is converted once and its value shared.

    What the document would be with every alias written out is counted, not made.
    """

    def __init__(self, max_expansions: int) -> None:
        self.max_expansions = max_expansions
        self.known: dict[int, _Converted] = {}
        self.entered: set[int] = set()

    def of(self, node: Node) -> _Converted:
        if not node.anchored:
            return self._convert(node)
        if id(node) in self.entered:
            raise node.unreadable("an anchor holds itself")
        if id(node) in self.known:
            return self._check_bounds(node, self.known[id(node)].again())
        self.entered.add(id(node))
        converted = self.known[id(node)] = self._convert(node)
        self.entered.remove(id(node))
        return converted

    def _convert(self, node: Node) -> _Converted:
        if node.items is not None:
            parts = [self.of(item) for item in node.items]
            return self._around(node, [part.value for part in parts], parts)
        if node.pairs is not None:
            made = {key.text: self.of(value) for key, value in node.pairs}
            plain = {key: part.value for key, part in made.items()}
            return self._around(node, plain, list(made.values()))
        return _Converted(value=node.scalar(), expansions=0, nodes=1, depth=0)

    def _around(self, node: Node, value: Any, parts: list[_Converted]) -> _Converted:
        return self._check_bounds(
            node,
            _Converted(
                value=value,
                expansions=sum(part.expansions for part in parts),
                nodes=1 + sum(part.nodes for part in parts),
                depth=1 + max((part.depth for part in parts), default=0),
            ),
        )

    def _check_bounds(self, node: Node, converted: _Converted) -> _Converted:
        if converted.expansions > self.max_expansions:
            raise node.unreadable(f"more than {self.max_expansions} alias expansions")
        if converted.nodes > MAX_NODES:
            raise node.unreadable(f"more than {MAX_NODES} values once aliases are written out")
        if converted.depth > MAX_DEPTH:
            raise node.unreadable(f"nested more than {MAX_DEPTH} deep")
        return converted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Converted:
    """A plain value, and how large it is with its aliases written out."""

    value: Any
    expansions: int
    nodes: int
    depth: int

    def again(self) -> _Converted:
        return replace(self, expansions=self.expansions + 1)


def _is_text(text: str, tag: str, *, plain: bool) -> bool:
    """Whether a scalar is a string at first sight."""
    return not tag and (not plain or (text != "" and text[0] not in _NOT_ALWAYS_TEXT))


def _scalar(text: str, tag: str, *, plain: bool) -> Any:
    if _is_text(text, tag, plain=plain):
        return text
    kind = tag.removeprefix(_TAG)
    if kind == "str" or (not plain and kind in ("", "!")):
        return text
    value = None if _NULL.match(text) else _number_or_word(text)
    if kind in _TYPES and not isinstance(value, _TYPES[kind]):
        raise ValueError(f"{text[:80]!r} is not a valid {kind}")
    return value


def _number_or_word(text: str) -> Any:
    if _BOOL.match(text):
        return text.lower() == "true"
    if _INT.match(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _FLOAT.match(text):
        return float(text)
    return float(text.replace(".", "")) if _NOT_FINITE.match(text) else text
