"""Starlark in one style, without changing what it means (decision 0035). Pure.

Indents of four spaces, `name = value`, double quotes, one argument a line where a bracket is
written over several lines or is too long for one, commas behind the last of them. Comments, blank
lines and the order of everything stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from apps.suites.domain.starlark.text import (
    KEYWORDS,
    OPENING,
    Bracket,
    Element,
    Item,
    Line,
    Token,
    UnreadableText,
    lines_of,
)

WIDTH: Final = 120
STEP: Final = 4
_TIGHT: Final = frozenset([".", ",", ":", ";"])  # no space before
_PREFIXES: Final = frozenset(["-", "+", "~", "*", "**"])


class MeaningChanged(Exception):
    """The formatted text has other tokens than the text; a bug of this module."""


def format_text(text: str) -> str:
    """Format a text in the style; raise UnreadableText, MeaningChanged."""
    lines = lines_of(text)
    made = "\n".join(_Printer(lines).lines())
    made = f"{made}\n" if made else ""
    if _meaning(lines_of(made)) != _meaning(lines):
        raise MeaningChanged
    return made


class _Printer:
    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._levels = [0]  # columns of the blocks that are open

    def lines(self) -> Iterator[str]:
        waiting: list[Line] = []
        for line in self._lines:
            if not line.items:
                waiting.append(line)
                continue
            before = list(self._levels)
            self._enter(line)
            for comment in waiting:
                yield from self._comment(comment, before)
            waiting = []
            yield from self._blank(line, len(self._levels) - 1, before)
            yield from self._print_line(line)
        for comment in waiting:
            yield from self._comment(comment, self._levels)

    _is_first = True

    def _enter(self, line: Line) -> None:
        if line.column > self._levels[-1]:
            self._levels.append(line.column)
        while line.column < self._levels[-1]:
            self._levels.pop()
        if line.column != self._levels[-1]:
            raise UnreadableText(0, "an indentation does not match any block")

    def _comment(self, line: Line, before: Sequence[int]) -> Iterator[str]:
        """Yield a comment, in its own block if that was open, else in that of the next line."""
        deeper = line.column in before and line.column > self._levels[-1]
        depth = before.index(line.column) if deeper else len(self._levels) - 1
        yield from self._blank(line, depth, before)
        yield " " * (STEP * depth) + _comment_text(line.comment)

    def _blank(self, line: Line, depth: int, before: Sequence[int]) -> Iterator[str]:
        opens_block = depth >= len(before)
        count = 0 if self._is_first or opens_block else min(line.blank_before, 1 if depth else 2)
        self._is_first = False
        yield from [""] * max(count, 0)

    def _print_line(self, line: Line) -> Iterator[str]:
        indent = STEP * (len(self._levels) - 1)
        made = _layout(line.items, indent)
        made[0] = " " * indent + made[0]
        if line.comment:
            made[-1] += f"  {_comment_text(line.comment)}"
        yield from made


def _layout(items: Sequence[Item], indent: int, room: int = 0) -> list[str]:
    """Return the lines of an expression or statement; the first one has no indent.

    `room` is what stands behind its last line.
    """
    parts = _parts(items)
    if len(parts) == 1:
        return _lay_out(parts[0], indent, room)
    further = indent + STEP * _is_pair(items)
    made = _lay_out(parts[0], indent, 0)
    for part in parts[1:]:
        first, *rest = _lay_out(part, further, room)
        made += [" " * further + first, *rest]
    return made


def _parts(items: Sequence[Item]) -> list[list[Item]]:
    """Split an element where its author began new lines."""
    parts: list[list[Item]] = [[]]
    for item in items:
        if item.broken_before and parts[-1]:
            parts.append([])
        parts[-1].append(item)
    return parts


def _lay_out(items: Sequence[Item], indent: int, room: int) -> list[str]:
    brackets = [each for each in items if isinstance(each, Bracket) and each.elements]
    opened = [each for each in items if isinstance(each, Bracket) and _must_open(each)]
    flat = "" if opened else _flat(items)
    if not opened:
        fits = indent + len(flat) + room <= WIDTH or "\n" in flat
        if fits or not brackets:
            return [flat]
        opened = [max(brackets, key=lambda each: len(_flat([each])))]
    made = [""]
    previous: Item | None = None
    for item in items:
        made[-1] += _space(previous, item, items)
        if isinstance(item, Bracket) and any(item is each for each in opened):
            first, *rest = _open_bracket(item, indent)
            made[-1] += first
            made += rest
        else:
            made[-1] += _flat([item])
        previous = item
    return made


def _must_open(bracket: Bracket) -> bool:
    if bracket.has_lines and (bracket.elements or bracket.comments or bracket.after_opening):
        return True
    return any(
        isinstance(item, Bracket) and _must_open(item)
        for element in bracket.elements
        for item in element.items
    )


def _open_bracket(bracket: Bracket, indent: int) -> list[str]:
    """Return a bracket with one element a line."""
    inner = indent + STEP
    behind = f"  {_comment_text(bracket.after_opening)}" if bracket.after_opening else ""
    if not behind and _hugs(bracket):
        first, *rest = _layout(bracket.elements[0].items, indent, 1)
        made = [bracket.opening + first, *rest]
        made[-1] += OPENING[bracket.opening]
        return made
    made = [bracket.opening + behind]
    for number, element in enumerate(bracket.elements):
        made += [" " * inner + _comment_text(each) for each in element.comments]
        is_last = number == len(bracket.elements) - 1
        comma = "," if not is_last or _may_end_in_comma(bracket) else ""
        first, *rest = _layout(element.items, inner, len(comma))
        made += [" " * inner + first, *rest]
        made[-1] += comma + (f"  {_comment_text(element.comment)}" if element.comment else "")
    made += [" " * inner + _comment_text(each) for each in bracket.comments]
    return [*made, " " * indent + OPENING[bracket.opening]]


def _hugs(bracket: Bracket) -> bool:
    """Tell whether the only element is a bracket that opens itself: `f([` … `])`."""
    if len(bracket.elements) != 1 or bracket.comments or bracket.ends_in_comma:
        return False
    (element,) = bracket.elements
    only = element.items[0] if len(element.items) == 1 else None
    if element.comments or element.comment or not isinstance(only, Bracket):
        return False
    return not bracket.has_lines and _must_open(only)


def _may_end_in_comma(bracket: Bracket) -> bool:
    last = bracket.elements[-1].items
    first = last[0]
    if isinstance(first, Token) and first.text in ("*", "**"):
        return False  # of a `def` it may not have one
    if any(isinstance(each, Token) and each.text == "for" for each in last):
        return False
    if bracket.opening == "[" and bracket.follows_value:
        return False  # an index
    if bracket.opening == "(" and not bracket.follows_value:
        return len(bracket.elements) > 1 or bracket.ends_in_comma  # a tuple
    return True


def _flat(items: Sequence[Item]) -> str:
    made = ""
    previous: Item | None = None
    for item in items:
        made += _space(previous, item, items)
        if isinstance(item, Token):
            made += _token_text(item)
        else:
            inner = ", ".join(_flat(each.items) for each in item.elements)
            comma = "," if _is_single(item) else ""
            if item.opening == "[" and item.follows_value:
                inner = inner.replace(": ", ":") if _is_slice(item) else inner
            made += item.opening + inner + comma + OPENING[item.opening]
        previous = item
    return made


def _is_single(bracket: Bracket) -> bool:
    """Tell whether a bracket is a tuple of one, in which the comma counts."""
    is_tuple = bracket.opening == "(" and not bracket.follows_value
    return is_tuple and len(bracket.elements) == 1 and bracket.ends_in_comma


def _is_slice(bracket: Bracket) -> bool:
    items = bracket.elements[0].items if bracket.elements else []
    plain = all(isinstance(each, Token) and each.kind != "string" for each in items)
    return plain and any(isinstance(each, Token) and each.text == ":" for each in items)


def _is_pair(items: Sequence[Item]) -> bool:
    """Tell whether an element is `name = value` or `key: value`."""
    return any(isinstance(each, Token) and each.text in ("=", ":") for each in items[:2])


def _space(previous: Item | None, item: Item, items: Sequence[Item]) -> str:
    if previous is None or _is_prefix(previous, items):
        return ""
    if isinstance(item, Bracket):
        return "" if item.follows_value else " "
    return "" if item.kind == "op" and item.text in _TIGHT else " "


def _is_prefix(item: Item, items: Sequence[Item]) -> bool:
    """Tell whether a token touches what follows: a dot, or a sign or star as in `-1` and `**kw`."""
    if not isinstance(item, Token) or item.kind != "op":
        return False
    if item.text not in _PREFIXES:
        return item.text == "."
    place = next(number for number, each in enumerate(items) if each is item)
    before = items[place - 1] if place else None
    if before is None:
        return True
    if isinstance(before, Bracket) or before.kind in ("string", "number"):
        return False
    return before.kind == "op" or before.text in KEYWORDS


def _token_text(token: Token) -> str:
    text = token.text
    if token.kind != "string" or text.endswith(('"', "'''")):
        return text
    prefix, body = text[: text.index("'")], text[text.index("'") + 1 : -1]
    return text if '"' in body or "\\" in body else f'{prefix}"{body}"'


def _comment_text(text: str) -> str:
    body = text[1:]
    is_plain = body and body[0] not in " \t!:#"
    return f"# {body}" if is_plain else f"#{body}".rstrip()


def _meaning(lines: Sequence[Line]) -> list[object]:
    """Return what counts: blocks, tokens, comments; not their layout or commas at the end."""
    levels: list[int] = [0]
    found: list[object] = []
    for line in lines:
        if not line.items:
            found.append(_comment_text(line.comment))
            continue
        while line.column < levels[-1]:
            levels.pop()
        if line.column > levels[-1]:
            levels.append(line.column)
        found.append((len(levels), _tokens(line.items), _comment_text(line.comment)))
    return found


def _tokens(items: Sequence[Item]) -> tuple[object, ...]:
    return tuple(
        (each.kind, _token_text(each))
        if isinstance(each, Token)
        else (
            each.opening,
            tuple(_element(element) for element in each.elements),
            tuple(_comment_text(comment) for comment in (each.after_opening, *each.comments)),
            _is_single(each),
        )
        for each in items
    )


def _element(element: Element) -> tuple[object, ...]:
    comments = tuple(_comment_text(each) for each in (*element.comments, element.comment))
    return _tokens(element.items), comments
