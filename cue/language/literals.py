"""Literals of CUE: numbers with multipliers, strings with escapes and removed indentation."""

from __future__ import annotations

import re
import sys
from decimal import Decimal, InvalidOperation
from typing import Final

from cue.faults import MAX_DIGITS

_BASES: Final = {"0x": 16, "0X": 16, "0o": 8, "0b": 2}
_DIGITS: Final = r"[0-9](?:_?[0-9])*"
_DECIMAL: Final = re.compile(
    rf"(?P<whole>{_DIGITS})?(?:(?P<dot>\.)(?P<fraction>{_DIGITS})?)?"
    r"(?P<exponent>[eE][+-]?[0-9]+)?(?P<multiplier>[KMGTP]i?)?\Z"
)
_BASED: Final = re.compile(
    r"0(?:[xX][0-9a-fA-F](?:_?[0-9a-fA-F])*|o[0-7](?:_?[0-7])*|b[01](?:_?[01])*)\Z"
)
_POWERS: Final = {letter: power for power, letter in enumerate("KMGTP", start=1)}
_SIMPLE: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "/": "/",
    "\\": "\\",
    '"': '"',
    "'": "'",
}
_MAX_EXPONENT: Final = 400


class BadLiteral(ValueError):
    """What is wrong with a literal."""


class Bytes(BadLiteral):
    """A literal of bytes, `'…'`, which the subset leaves out."""


def read_number(text: str) -> tuple[Decimal, bool, str]:
    """Value, whether it is an integer, and its spelling in JSON. Raises BadLiteral."""
    if len(text) > MAX_DIGITS:
        raise BadLiteral(f"a number of more than {MAX_DIGITS} characters")
    if _BASED.match(text):
        value = int(text[2:].replace("_", ""), _BASES[text[:2]])
        return Decimal(value), True, str(value)
    match = _DECIMAL.match(text)
    if match is None or (match["whole"] is None and match["fraction"] is None):
        raise BadLiteral("malformed number")
    return _decimal(match)


def _decimal(match: re.Match[str]) -> tuple[Decimal, bool, str]:
    whole, fraction = match["whole"] or "0", match["fraction"] or ""
    exponent = match["exponent"] or ""
    if len(whole) > 1 and whole.startswith("0"):
        if not match["dot"]:
            raise BadLiteral("a number with a leading zero")
        whole = whole.lstrip("0_") or "0"
    if exponent and (match["multiplier"] or abs(int(exponent[1:])) > _MAX_EXPONENT):
        raise BadLiteral("an exponent that is not allowed here")
    plain = whole + (f".{fraction}" if fraction else "")
    plain = plain.replace("_", "") + exponent
    if match["multiplier"]:
        return _multiply(plain, match["multiplier"])
    is_int = not match["dot"] and not exponent
    value = Decimal(plain)
    return value, is_int, plain if is_int else str(value)


def _multiply(plain: str, multiplier: str) -> tuple[Decimal, bool, str]:
    base = 1024 if multiplier.endswith("i") else 1000
    try:
        numerator, denominator = Decimal(plain).as_integer_ratio()
    except InvalidOperation:
        raise BadLiteral("malformed number") from None
    value, rest = divmod(numerator * base ** _POWERS[multiplier[0]], denominator)
    if rest:
        raise BadLiteral("a number with a multiplier that is not an integer")
    return Decimal(value), True, str(value)


def read_piece(token: str) -> str:
    """The text of a piece of a string, escapes resolved; `token` is `delimiter NUL content`."""
    delimiter, _, content = token.partition("\0")
    if "'" in delimiter:
        raise Bytes("a literal of bytes")
    return _unescape(content, "\\" + "#" * delimiter.count("#"))


def read_string(pieces: list[str]) -> list[str]:
    """The text between the interpolations of a string, in order. Raises BadLiteral."""
    delimiter = pieces[0].partition("\0")[0]
    if is_multiline(delimiter):
        pieces = _without_indentation(pieces, delimiter)
    return [read_piece(piece) for piece in pieces]


def is_multiline(delimiter: str) -> bool:
    return len(delimiter.strip("#")) > 1


def _without_indentation(pieces: list[str], delimiter: str) -> list[str]:
    contents = [piece.partition("\0")[2].replace("\r\n", "\n") for piece in pieces]
    if not contents[0].startswith("\n"):
        raise BadLiteral("a multiline string starts on a new line")
    indentation = contents[-1].rpartition("\n")[2]
    if indentation.strip(" \t") or "\n" not in contents[-1]:
        raise BadLiteral("a multiline string ends on a line of its own")
    contents = [_dedent(content, indentation) for content in contents]
    contents[-1] = contents[-1].rpartition("\n")[0]
    contents[0] = contents[0][1:]
    return [f"{delimiter}\0{content}" for content in contents]


def _dedent(content: str, indentation: str) -> str:
    first, *lines = content.split("\n")
    for index, line in enumerate(lines):
        if line.startswith(indentation):
            lines[index] = line[len(indentation) :]
        elif line:
            raise BadLiteral("a line of a multiline string is indented less than its end")
    return "\n".join([first, *lines])


def _unescape(content: str, escape: str) -> str:
    if escape not in content:
        return content
    pattern = re.compile(
        re.escape(escape) + r"(?:(?P<unicode>u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})|(?P<simple>.))?",
        re.DOTALL,
    )
    text = pattern.sub(_read_escape, content)
    try:  # halves of surrogate pairs come together
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise BadLiteral("an escape that is half of a surrogate pair") from None


def _read_escape(match: re.Match[str]) -> str:
    if match["unicode"]:
        code = int(match["unicode"][1:], 16)
        if code > sys.maxunicode:
            raise BadLiteral("an escape beyond Unicode")
        return chr(code)
    if match["simple"] not in _SIMPLE or match["simple"] == "'":
        raise BadLiteral("an unknown escape")
    return _SIMPLE[match["simple"]]
