"""The colours of source text, line by line, as CSS classes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String
from pygments.util import ClassNotFound

MAX_TEXT: Final = 32 * 2**10  # characters; larger files are shown plain
MAX_LINE: Final = 4_000
_LEXERS: Final = {
    "starlark": "python", "python": "python", "yaml": "yaml", "json": "json", "xml": "xml",
    "protobuf": "protobuf", "rego": "rego", "bash": "bash", "typescript": "typescript",
    "javascript": "javascript", "markdown": "markdown", "cue": "go", "graphql": "graphql",
}  # fmt: skip
_CLASSES: Final[tuple[tuple[Any, str], ...]] = (
    (Comment, "hl-comment"),
    (String, "hl-string"),
    (Number, "hl-number"),
    (Keyword, "hl-keyword"),
    (Name.Tag, "hl-name"),
    (Name.Attribute, "hl-name"),
    (Name.Function, "hl-name"),
    (Name.Decorator, "hl-name"),
    (Operator.Word, "hl-keyword"),
)
Span = tuple[str, str]  # class or "", text


@lru_cache(maxsize=128)
def highlight(text: str, language: str) -> tuple[tuple[Span, ...], ...] | None:
    """Return the spans of each line; None for a text that is shown plain."""
    name = _LEXERS.get(language)
    too_large = len(text) > MAX_TEXT or any(len(line) > MAX_LINE for line in text.split("\n"))
    if name is None or too_large:
        return None
    lexer = _lexer(name)
    return None if lexer is None else tuple(_lines(lexer, text))


@lru_cache(maxsize=16)
def _lexer(name: str) -> Lexer | None:
    try:
        return get_lexer_by_name(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def _lines(lexer: Lexer, text: str) -> Iterator[tuple[Span, ...]]:
    line: list[Span] = []
    for kind, value in lexer.get_tokens(text):
        css = _css(kind)
        first, *others = value.split("\n")
        if first and line and line[-1][0] == css:
            line[-1] = (css, line[-1][1] + first)
        elif first:
            line.append((css, first))
        for other in others:
            yield tuple(line)
            line = [(css, other)] if other else []
    yield tuple(line)


def _css(kind: Any) -> str:
    if kind in Punctuation:
        return ""
    return next((css for token, css in _CLASSES if kind in token), "")
