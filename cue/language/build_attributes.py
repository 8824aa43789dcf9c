"""Attributes before the package clause: `@if(condition)` with no tag set."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from lark import Token

from cue.faults import broken_at, unsupported_at
from readers.tree import Attribute

_WORD: Final = re.compile(r"\s*(&&|\|\||!|\(|\)|[\w.]+)")
_MAX_WORDS: Final = 200
_MEANINGFUL: Final = {"experiment", "extern", "ignore"}


def check_build_attributes(found: Iterable[tuple[Token, Attribute]]) -> None:
    """Raise Broken where an attribute leaves the file out of a build without tags."""
    for token, attribute in found:
        line, column = token.line or 1, token.column or 1
        if attribute.name in _MEANINGFUL:
            message = f"the attribute @{attribute.name} of a file"
            raise unsupported_at(line, column, message)
        if attribute.name != "if":
            continue
        words = _words(attribute.body)
        if not words:
            raise broken_at(line, column, "@if needs a condition")
        try:
            holds = _either(words)
        except IndexError:
            words.append("")
            holds = False
        if words:
            raise broken_at(line, column, "the condition of @if is malformed")
        if not holds:
            message = f"@if({attribute.body}) leaves the file out: no build tag is set"
            raise broken_at(line, column, message, "conflict")


def _words(body: str) -> list[str]:
    words: list[str] = []
    at = 0
    text = body.strip()
    while match := _WORD.match(text, at):
        words.append(match[1])
        at = match.end()
        if len(words) > _MAX_WORDS:
            return []
    return words if at == len(text) else []


def _either(words: list[str]) -> bool:
    """A condition from the front of the words, which it takes away."""
    holds = _both(words)
    while words and words[0] == "||":
        del words[0]
        holds = _both(words) or holds
    return holds


def _both(words: list[str]) -> bool:
    holds = _single(words)
    while words and words[0] == "&&":
        del words[0]
        holds = _single(words) and holds
    return holds


def _single(words: list[str]) -> bool:
    word = words.pop(0)
    if word == "!":
        return not _single(words)
    if word == "(":
        holds = _either(words)
        if words.pop(0) != ")":
            raise IndexError
        return holds
    if not word[0].isalnum() and word[0] != "_":
        raise IndexError
    return False
