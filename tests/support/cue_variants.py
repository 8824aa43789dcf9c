"""Variants of what people write: a number, a word, an operator or a line is another one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from random import Random

_NUMBER = re.compile(r"(?<![\w.\"])\d+(?![\w.\"])")
_WORD = re.compile(r'"[a-z][a-z0-9-]*"')
_OPERATOR = re.compile(r" (==|!=|<=|>=|<|>|&&|\|\||\+|-|\*|/|&|\|) ")
_OPERATORS = ["==", "!=", "<", ">=", "&&", "||", "+", "-", "*", "/", "&", "|"]


def variants(programs: Sequence[str], seed: int) -> Iterator[str]:
    """Changed programs without end; most are still read, and some are refused."""
    random = Random(seed)
    while True:
        text = random.choice(programs)
        for _ in range(random.randint(1, 2)):
            text = random.choices(_CHANGES, _WEIGHTS)[0](text, random)
        yield text


def _other_number(text: str, random: Random) -> str:
    return _replaced(text, _NUMBER, str(random.choice([0, 1, 2, 3, 5, 8, 10, 100])), random)


def _other_word(text: str, random: Random) -> str:
    words = _WORD.findall(text)
    return _replaced(text, _WORD, random.choice(words), random) if words else text


def _other_operator(text: str, random: Random) -> str:
    return _replaced(text, _OPERATOR, f" {random.choice(_OPERATORS)} ", random)


def _without_a_line(text: str, random: Random) -> str:
    lines = text.splitlines(keepends=True)
    if len(lines) > 1:
        del lines[random.randrange(len(lines))]
    return "".join(lines)


def _lines_exchanged(text: str, random: Random) -> str:
    lines = text.splitlines(keepends=True)
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return "".join(lines)


def _replaced(text: str, pattern: re.Pattern[str], by: str, random: Random) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text
    match = random.choice(found)
    return text[: match.start()] + by + text[match.end() :]


_CHANGES: list[Callable[[str, Random], str]] = [
    _other_number,
    _other_word,
    _other_operator,
    _without_a_line,
    _lines_exchanged,
]
_WEIGHTS = [4, 4, 2, 2, 1]
