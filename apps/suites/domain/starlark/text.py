"""The text of Starlark as lines of tokens and brackets, with its comments. Pure.

It knows no more of the language than a formatter needs; whether a text is Starlark, the evaluator
says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

OPENING: Final = {"(": ")", "[": "]", "{": "}"}
_CLOSING: Final = {close: opening for opening, close in OPENING.items()}
_TOKEN: Final = re.compile(
    r"""(?P<string>[rRbBfF]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
      |(?P<comment>\#[^\n]*)
      |(?P<newline>\r?\n)
      |(?P<space>[ \t\f]+|\\\r?\n)
      |(?P<name>[A-Za-z_]\w*)
      |(?P<number>0[xXoObB][0-9A-Fa-f]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      |(?P<op>//=|<<=|>>=|\*\*|//|<<|>>|==|!=|<=|>=|->|\+=|-=|\*=|/=|%=|&=|\|=|\^=|[-+*/%&|^~<>=.,:;()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)  # fmt: skip
_TAB: Final = 8
MAX_DEPTH: Final = 200  # of brackets


class UnreadableText(Exception):
    """A text that is not Starlark at `line`, which starts at 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


@dataclass(slots=True)
class Token:
    kind: str
    text: str
    broken_before: bool = False  # inside brackets: it begins a line


@dataclass(slots=True)
class Element:
    """What is between the commas of a bracket; `comments` are the lines above, `comment` behind."""

    items: list[Item] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    comment: str = ""


@dataclass(slots=True)
class Bracket:
    opening: str
    elements: list[Element] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)  # above the closing bracket
    after_opening: str = ""  # a comment behind the opening bracket
    ends_in_comma: bool = False
    has_lines: bool = False  # it is written over several lines
    broken_before: bool = False
    follows_value: bool = False  # a call or an index


Item = Token | Bracket


@dataclass(slots=True)
class Line:
    """A logical line; without items it is a comment on a line of its own."""

    column: int
    blank_before: int
    items: list[Item] = field(default_factory=list)
    comment: str = ""


def lines_of(text: str) -> list[Line]:
    """Return the logical lines of a text; raise UnreadableText."""
    return list(_Reader(text).lines())


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.line = 1
        self.open: list[tuple[Bracket, int]] = []
        self.at_line_start = False
        self.current: Line | None = None
        self.blank = 0  # lines since the last one

    def lines(self) -> Iterator[Line]:
        for token, column in self._tokens():
            if self.open or token.kind not in ("newline", "comment"):
                if self.current is None:
                    self.current, self.blank = Line(column=column, blank_before=self.blank), 0
                self._take(token, self.current)
            else:
                yield from self._end_line(token, column)
        if self.open:
            raise UnreadableText(self.open[-1][1], "a bracket is not closed")
        if self.current is not None:
            yield self.current

    def _end_line(self, token: Token, column: int) -> Iterator[Line]:
        """Yield the line that a newline ends, or a comment on a line of its own."""
        if token.kind == "comment" and self.current is not None:
            self.current.comment = token.text
        elif token.kind == "comment":
            yield Line(column=column, blank_before=self.blank, comment=token.text)
            self.blank = -1  # the end of its line is not a blank line
        elif self.current is None:
            self.blank += 1
        else:
            yield self.current
            self.current = None

    def _tokens(self) -> Iterator[tuple[Token, int]]:
        place = line_start = 0
        while place < len(self.text):
            match = _TOKEN.match(self.text, place)
            if match is None:
                raise UnreadableText(self.line, f"unexpected {self.text[place]!r}")
            kind, found = match.lastgroup or "", match[0]
            if kind != "space":
                before = self.text[line_start:place]
                yield Token(kind, found.rstrip()), len(before.expandtabs(_TAB))
            self.line += found.count("\n")
            place = match.end()
            if "\n" in found:
                line_start = self.text.rfind("\n", 0, place) + 1

    def _take(self, token: Token, line: Line) -> None:
        if not self.open:
            self._add(token, line.items)
            return
        bracket = self.open[-1][0]
        if token.kind == "newline":
            bracket.has_lines = True
            self.at_line_start = True
        elif token.kind == "comment":
            self._comment(token.text, bracket)
        elif token.text == "," and token.kind == "op":
            bracket.ends_in_comma = True
            if not bracket.elements or not bracket.elements[-1].items:
                raise UnreadableText(self.line, "unexpected ','")
        elif token.text in _CLOSING and token.kind == "op":
            self._close(token.text)
        else:
            self._add_to(bracket, token)

    def _add_to(self, bracket: Bracket, token: Token) -> None:
        if bracket.ends_in_comma or not bracket.elements:
            bracket.elements.append(Element(comments=bracket.comments))
            bracket.comments, bracket.ends_in_comma = [], False
            self.at_line_start = False
        element = bracket.elements[-1]
        if bracket.comments:  # between the lines of one element
            raise UnreadableText(self.line, "a comment inside an expression")
        token.broken_before = self.at_line_start and bool(element.items)
        if token.broken_before and element.comment:
            raise UnreadableText(self.line, "a comment inside an expression")
        self.at_line_start = False
        self._add(token, element.items)

    def _comment(self, text: str, bracket: Bracket) -> None:
        bracket.has_lines = True
        if self.at_line_start:
            bracket.comments.append(text)
        elif bracket.elements and not bracket.comments:
            bracket.elements[-1].comment = text
        else:
            bracket.after_opening = text

    def _add(self, token: Token, items: list[Item]) -> None:
        if token.kind != "op" or token.text not in OPENING:
            if token.kind == "op" and token.text in _CLOSING:
                raise UnreadableText(self.line, f"unexpected {token.text!r}")
            items.append(token)
            return
        if len(self.open) >= MAX_DEPTH:
            raise UnreadableText(self.line, f"brackets are nested more than {MAX_DEPTH} deep")
        bracket = Bracket(token.text, broken_before=token.broken_before)
        bracket.follows_value = bool(items) and _is_value(items[-1])
        items.append(bracket)
        self.open.append((bracket, self.line))
        self.at_line_start = False

    def _close(self, text: str) -> None:
        bracket, _ = self.open.pop()
        if OPENING[bracket.opening] != text:
            raise UnreadableText(self.line, f"unexpected {text!r}")
        self.at_line_start = False


KEYWORDS: Final = frozenset(
    ("and", "else", "for", "if", "in", "lambda", "load", "not", "or", "return", "elif", "def")
)


def _is_value(item: Item) -> bool:
    """Tell whether a bracket behind an item is a call or an index."""
    if isinstance(item, Bracket):
        return True
    if item.kind == "name":
        return item.text not in KEYWORDS or item.text == "load"
    return item.kind == "string"
