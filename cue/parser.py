"""Text to syntax tree."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final, cast

from lark import Lark, Token, UnexpectedInput
from lark.exceptions import UnexpectedToken

from cue.faults import MAX_BYTES, Broken, broken, too_large
from cue.scanner import Scanner
from cue.syntax import Node, Struct
from cue.syntax_builder import Builder

_GRAMMAR: Final = Path(__file__).with_name("grammar.lark")


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
        raise broken(line, 1, "the file holds a NUL character")
    try:
        return cast(Struct, _parser().parse(text))
    except UnexpectedToken as error:
        raise _unexpected(error.token) from None
    except UnexpectedInput as error:
        raise broken(error.line, error.column, "unexpected text") from None


def parse_expression(text: str) -> Node:
    """A struct of ours, as a value."""
    return parse(text).embeddings[0].value


def _unexpected(token: Token) -> Broken:
    line, column = token.line or 1, token.column or 1
    if token.type == "$END":
        return broken(line, column, "unexpected end of the file")
    if token.type == "COMMA" and not token:
        return broken(line, column, "unexpected end of the line")
    shown = "string" if token.type.startswith("STRING") else repr(str(token)[:40])
    return broken(line, column, f"unexpected {shown}")
