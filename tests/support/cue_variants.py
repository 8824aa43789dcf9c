"""Files that mean the same as a random one: the language knows no order of declarations.

Where the real program answers such a file otherwise, it contradicts itself, and there is nobody to
agree with. It does so on some values that depend on themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

ORDERS = 12
OTHERS = 6
_REFERENCE = re.compile(r'(?<![\w.#"@])(#A|#B|_h|[abcd])(?![\w?"]|: |:)')


def equivalents(text: str) -> Iterator[str]:
    random = Random(text)
    yield with_named_operands(text)
    for _ in range(ORDERS):
        yield "\n".join(_reordered(text.split("\n"), random))
    for _ in range(OTHERS):
        yield _REFERENCE.sub(lambda found: _with_top(found[1], random), text)


def _with_top(name: str, random: Random) -> str:
    return f"({name} & _)" if random.random() < 0.7 else name


def with_named_operands(text: str) -> str:
    """What stands in an interpolation, as the member of a struct there."""
    start = text.find("\\(")
    if start < 0:
        return text
    end = _closing(text, start + 1)
    inner = with_named_operands(text[start + 2 : end])
    rest = with_named_operands(text[end + 1 :])
    return f"{text[:start]}\\({{operand: {inner}}}.operand){rest}"


def _closing(text: str, at: int) -> int:
    depth = 0
    for place in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if not depth:
            return place
    raise ValueError("no closing parenthesis")


def _reordered(lines: list[str], random: Random) -> list[str]:
    """The declarations of a struct, and of the structs inside, in any order."""
    blocks = [_inside(block, random) for block in _declarations(lines)]
    random.shuffle(blocks)
    return [line for block in blocks for line in block]


def _declarations(lines: list[str]) -> Iterator[list[str]]:
    block: list[str] = []
    depth = 0
    for line in lines:
        block.append(line)
        depth += sum((sign in "{[(") - (sign in "}])") for sign in line)
        if not depth:
            yield block
            block = []


def _inside(block: list[str], random: Random) -> list[str]:
    made: list[str] = []
    at = 0
    while at < len(block):
        made.append(block[at])
        at += 1
        if made[-1].endswith("{"):
            end = _end_of_body(block, at)
            made += _reordered(block[at:end], random)
            at = end
    return made


def _end_of_body(block: list[str], start: int) -> int:
    depth = 1
    for at in range(start, len(block)):
        for sign in block[at]:
            depth += (sign == "{") - (sign == "}")
            if not depth:
                return at
    raise ValueError("no closing brace")
