r"""Text to syntax tree: tokens, and the grammar over them.

The tokens hold the commas that line ends stand for, and strings cut at `\(…)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from lark import Lark, Token, UnexpectedInput
from lark.exceptions import UnexpectedToken
from lark.lexer import Lexer

from cue.faults import MAX_BYTES, MAX_NESTING, MAX_TOKENS, Broken, broken_at, too_large
from cue.language.literals import is_multiline
from cue.language.syntax import Node, Struct
from cue.language.syntax_builder import Builder

_GRAMMAR: Final = Path(__file__).with_name("grammar.lark")
KEYWORDS: Final = {
    "package": "PACKAGE",
    "import": "IMPORT",
    "let": "LET",
    "if": "IF",
    "for": "FOR",
    "in": "IN",
    "true": "BOOL",
    "false": "BOOL",
    "null": "NULL",
    "div": "WORD",
    "mod": "WORD",
    "quo": "WORD",
    "rem": "WORD",
}
SYMBOLS: Final = {
    "...": "DOTS",
    "_|_": "BOTTOM",
    "&&": "LAND",
    "||": "LOR",
    "==": "EQ",
    "=~": "REL",
    "!~": "REL",
    "!=": "REL",
    "<=": "REL",
    ">=": "REL",
    "<": "REL",
    ">": "REL",
    "&": "AND",
    "|": "OR",
    "*": "STAR",
    "/": "SLASH",
    "+": "PLUS",
    "-": "MINUS",
    "!": "BANG",
    "?": "QUESTION",
    ":": "COLON",
    ",": "COMMA",
    ".": "DOT",
    "=": "ASSIGN",
    "(": "LPAR",
    ")": "RPAR",
    "[": "LSQB",
    "]": "RSQB",
    "{": "LBRACE",
    "}": "RBRACE",
}
_ENDS_A_LINE: Final = {
    *("IDENT", "NUMBER", "BOOL", "NULL", "BOTTOM", "STRING", "STRING_END", "BYTES", "DOTS"),
    *("RPAR", "RSQB", "RBRACE", "ATTRIBUTE", "QUESTION"),
}
_BEFORE_NAME: Final = {"LET", "PACKAGE", "IMPORT", "DOT"}
_BEFORE_OPERAND: Final = {
    *("COLON", "ASSIGN", "LPAR", "AND", "OR", "LAND", "LOR", "EQ", "REL", "BANG"),
    *("STAR", "SLASH", "PLUS", "MINUS", "WORD", "IF", "IN"),
}
_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r]+)
      | (?P<newline>\n)
      | (?P<comment>//[^\n]*)
      | (?P<symbol>\.\.\.|_\|_)
      | (?P<string>\#*(?:\"{3}|'{3}|["']))
      | (?P<number>(?:[0-9]|\.[0-9])(?:[0-9a-zA-Z_.]|(?<=[0-9][eE])[+-])*)
      | (?P<name>(?:_?\#)?(?:[^\W\d]|\$)(?:\w|\$)*|_?\#)
      | (?P<attribute>@(?:[^\W\d]|\$)[\w$]*\()
      | (?P<operator>&&|\|\||==|=~|!~|!=|<=|>=|[<>&|*/+\-!?:,.=()\[\]{}])
    """,
    re.VERBOSE,
)
_LABEL_FOLLOWS: Final = re.compile(r"[ \t]*[?!]?:")
_BRACKETS: Final = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}


class Scanner(Lexer):
    """Reads tokens for the parser; raises Broken."""

    __future_interface__ = 1

    def __init__(self, _conf: Any) -> None: ...

    def lex(self, _state: Any, _parser: Any = None) -> Iterator[Token]:
        return _Scan(_state.text).tokens()


class _Scan:
    def __init__(self, text: Any) -> None:
        self.text: str = getattr(text, "text", text)
        self.at = 0
        self.line = 1
        self.line_start = 0
        self.last = ""
        self.is_looping = False  # between `for` and its `in`
        self.is_importing = False  # between the parentheses of `import (…)`
        self.line_ended = (0, 0)  # where a line end may stand for a comma
        self.open: list[tuple[str, str | None]] = []  # closing bracket, delimiter of its string

    def tokens(self) -> Iterator[Token]:
        count = 0
        while self.at < len(self.text):
            count += 1
            if count > MAX_TOKENS:
                raise too_large(f"has more than {MAX_TOKENS} words and signs")
            yield from self._next()
        if self.last in _ENDS_A_LINE or self.line_ended[0]:
            yield self._token("COMMA", "")

    def _comma_of_line_end(self, match: re.Match[str]) -> Iterator[Token]:
        """Between declarations a line end is a comma; in lists and parentheses it is nothing."""
        line, column = self.line_ended
        self.line_ended = (0, 0)
        if match[0] in (",", ")", "]"):
            return
        if self.open and self.open[-1][0] != "RBRACE" and not self.is_importing:
            raise broken_at(line, column, "a comma is missing at the end of the line")
        yield Token("COMMA", "", line=line, column=column)

    def _next(self) -> Iterator[Token]:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            shown = self.text[self.at].encode("unicode_escape").decode()
            raise self._syntax_error(f"unexpected character {shown}")
        kind = str(match.lastgroup)
        if kind == "newline":
            if self.last in _ENDS_A_LINE:
                self.line_ended = self.line, self.at - self.line_start + 1
                self.last = "COMMA"
            self._advance(self.at + 1)
            return
        if kind in ("space", "comment"):
            self.at = match.end()
            return
        if self.line_ended[0]:
            yield from self._comma_of_line_end(match)
        if kind == "string":
            self.at = match.end()
            yield self._piece(match[0], first=True, start=match.start())
        elif kind == "attribute":
            yield self._attribute(match.end())
        else:
            yield from self._plain(kind, match)

    def _plain(self, kind: str, match: re.Match[str]) -> Iterator[Token]:
        text = match[0]
        if kind == "name":
            if text.startswith("__"):
                raise self._syntax_error("names that begin with __ are reserved")
            labelled = _LABEL_FOLLOWS.match(self.text, match.end())
            name = KEYWORDS.get(text, "IDENT")
            if labelled or self._is_reference(name):
                name = "IDENT"
            yield self._token(name, text)
        elif kind == "number":
            yield self._token("NUMBER", text)
        else:
            yield from self._symbol(text)

    def _is_reference(self, keyword: str) -> bool:
        """Return whether a keyword stands where CUE takes it for the name of a field.

        `x: in * in`; `y: if + 1`; `div(5, 2)`, not `5 div 2`. For `let` and after a dot, the
        editions of CUE differ.
        """
        match keyword:
            case "WORD":
                return self.last not in _ENDS_A_LINE
            case "IN":
                return not self.is_looping and self.last not in _BEFORE_NAME
            case "FOR" | "IF":
                return self.last in _BEFORE_OPERAND
            case _:
                return False

    def _symbol(self, text: str) -> Iterator[Token]:
        name = SYMBOLS[text]
        if name in ("LPAR", "RPAR"):
            self.is_importing = name == "LPAR" and self.last == "IMPORT"
        if name in _BRACKETS:
            self._open(_BRACKETS[name], None)
        if name in _BRACKETS.values():
            delimiter = self._close(name)
            if delimiter is not None:
                self._advance(self.at + 1)
                yield self._piece(delimiter, first=False)
                return
        yield self._token(name, text)

    def _open(self, closing: str, delimiter: str | None) -> None:
        self.open.append((closing, delimiter))
        if len(self.open) > MAX_NESTING:
            raise self._syntax_error(f"nested more than {MAX_NESTING} deep")

    def _close(self, name: str) -> str | None:
        if not self.open or self.open[-1][0] != name:
            raise self._syntax_error(f"unexpected {self.text[self.at]!r}")
        return self.open.pop()[1]

    def _piece(self, delimiter: str, *, first: bool, start: int | None = None) -> Token:
        """The text up to the end of the string or the next interpolation."""
        begin = self.at if start is None else start
        line, column = self.line, begin - self.line_start + 1
        end, interpolated = self._piece_end(delimiter)
        content = self.text[self.at : end]
        self._advance(
            end + len(_escape(delimiter)) + 1 if interpolated else end + len(_closing(delimiter))
        )
        if interpolated:
            self._open("RPAR", delimiter)
        name = _PIECES[first, interpolated]
        self.last = name
        return Token(name, f"{delimiter}\0{content}", line=line, column=column)

    def _piece_end(self, delimiter: str) -> tuple[int, bool]:
        multiline = is_multiline(delimiter)
        escape = re.escape(_escape(delimiter))
        stops = re.compile(rf"{escape}\(|{escape}[^\n]|{re.escape(_closing(delimiter))}|\n")
        at = self.at
        while match := stops.search(self.text, at):
            found = match[0]
            if found == "\n":
                if not multiline:
                    break
            elif found == _closing(delimiter):
                return match.start(), False
            elif found.endswith("("):
                return match.start(), True
            at = match.end()
        raise self._syntax_error("the string has no end")

    def _attribute(self, end: int) -> Token:
        depth, at = 1, end
        while depth:
            match = _ATTRIBUTE_PART.match(self.text, at)
            if match is None:
                raise self._syntax_error("the attribute has no end")
            depth += {"(": 1, ")": -1}.get(match[0], 0)
            if depth > MAX_NESTING:
                raise self._syntax_error(f"nested more than {MAX_NESTING} deep")
            at = match.end()
        return self._token("ATTRIBUTE", self.text[self.at : at])

    def _token(self, name: str, text: str) -> Token:
        token = Token(name, text, line=self.line, column=self.at - self.line_start + 1)
        self.is_looping = name == "FOR" or (self.is_looping and name in ("IDENT", "COMMA"))
        self.last = name
        self._advance(self.at + len(text))
        return token

    def _advance(self, end: int) -> None:
        lines = self.text.count("\n", self.at, end)
        if lines:
            self.line += lines
            self.line_start = self.text.rindex("\n", self.at, end) + 1
        self.at = end

    def _syntax_error(self, message: str) -> Exception:
        return broken_at(self.line, self.at - self.line_start + 1, message)


_PIECES: Final = {
    (True, False): "STRING",
    (True, True): "STRING_START",
    (False, True): "STRING_MIDDLE",
    (False, False): "STRING_END",
}
_ATTRIBUTE_PART: Final = re.compile(r'[()]|"(?:[^"\\\n]|\\.)*"|#"[^"\n]*"#|[^()"\n]')


def _escape(delimiter: str) -> str:
    return "\\" + "#" * delimiter.count("#")


def _closing(delimiter: str) -> str:
    return delimiter[::-1]


@cache
def _parser() -> Lark:
    return Lark(
        _GRAMMAR.read_text(),
        parser="lalr",
        lexer=Scanner,
        transformer=Builder(),
        maybe_placeholders=True,
    )


def parse(text: str) -> Struct:
    """The file as one struct. Raises Broken at the first error of syntax or limit."""
    if len(text) > MAX_BYTES or len(text.encode(errors="replace")) > MAX_BYTES:
        raise too_large(f"is larger than {MAX_BYTES} bytes")
    text = text.removeprefix("\ufeff")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise broken_at(line, 1, "the file holds a NUL character")
    try:
        return cast(Struct, _parser().parse(text))
    except UnexpectedToken as error:
        raise _unexpected_token(error.token) from None
    except UnexpectedInput as error:
        raise broken_at(error.line, error.column, "unexpected text") from None


def parse_expression(text: str) -> Node:
    """A struct of ours, as a value."""
    return parse(text).embeddings[0].value


def _unexpected_token(token: Token) -> Broken:
    line, column = token.line or 1, token.column or 1
    if token.type == "$END":
        return broken_at(line, column, "unexpected end of the file")
    if token.type == "COMMA" and not token:
        return broken_at(line, column, "unexpected end of the line")
    shown = "string" if token.type.startswith("STRING") else repr(str(token)[:40])
    return broken_at(line, column, f"unexpected {shown}")
