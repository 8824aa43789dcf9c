"""Strings, numbers and dates of TOML 1.0."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time
from typing import Final

from readers.tree import Kind

_CONTROL: Final = r"\0-\x08\x0b-\x1f\x7f"  # all but tab and line break
STRING: Final = re.compile(
    rf'"""\n?(?P<long>(?:[^"\\{_CONTROL}]++|\\[^{_CONTROL}]|"(?!""))*+)"""(?P<tail>"{{0,2}})'
    rf"|'''\n?(?P<raw>(?:[^'{_CONTROL}]++|'(?!''))*+)'''(?P<rawtail>'{{0,2}})"
    rf'|"(?P<short>(?:[^"\\\n{_CONTROL}]++|\\[^\n{_CONTROL}])*+)"'
    rf"|'(?P<literal>[^'\n{_CONTROL}]*+)'"
)
_ESCAPE: Final = re.compile(
    r"\\(?:u(?P<u>[0-9A-Fa-f]{4})|U(?P<U>[0-9A-Fa-f]{8})|(?P<fold>[ \t]*\n[ \t\n]*)|(?P<one>.))",
    re.DOTALL,
)
_SHORT: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
_DECIMAL: Final = re.compile(r"[+-]?(?:0|[1-9](?:_?[0-9])*+)")
_BASED: Final = re.compile(
    r"0x[0-9A-Fa-f](?:_?[0-9A-Fa-f])*+|0o[0-7](?:_?[0-7])*+|0b[01](?:_?[01])*+"
)
_FLOAT: Final = re.compile(
    r"[+-]?(?:0|[1-9](?:_?[0-9])*+)(?:\.[0-9](?:_?[0-9])*+)?(?:[eE][+-]?[0-9](?:_?[0-9])*+)?"
)
_NOT_FINITE: Final = re.compile(r"[+-]?(?:inf|nan)")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CLOCK: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
_TIME: Final = re.compile(_CLOCK)
_MOMENT: Final = re.compile(
    rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[Tt ]{_CLOCK}(?:[Zz]|[+-][0-9]{{2}}:[0-9]{{2}})?"
)
_MOMENTS: Final[tuple[tuple[re.Pattern[str], Callable[[str], object]], ...]] = (
    (_DATE, date.fromisoformat),
    (_TIME, time.fromisoformat),
    (_MOMENT, datetime.fromisoformat),
)
_MAX_DIGITS: Final = 4000
_UNSAFE: Final = re.compile(r'["\\\0-\x08\n-\x1f\x7f]')


class TomlError(ValueError):
    """A scalar that TOML does not allow; the message says why."""


def string(match: re.Match[str]) -> str:
    """The content of a match of STRING."""
    for name, tail in (("raw", match["rawtail"]), ("literal", "")):
        if match[name] is not None:
            return str(match[name]) + (tail or "")
    if match["long"] is not None:
        return _ESCAPE.sub(_unescaped, match["long"]) + match["tail"]
    return _ESCAPE.sub(_unescaped, match["short"])


def _unescaped(match: re.Match[str]) -> str:
    if match["fold"] is not None:
        return ""
    code = match["u"] or match["U"]
    if code:
        value = int(code, 16)
        if 0xD800 <= value <= 0xDFFF or value > 0x10FFFF:  # noqa: PLR2004
            raise TomlError("an escape stands for no character")
        return chr(value)
    if match["one"] not in _SHORT:
        raise TomlError(f"unknown escape \\{match['one']}")
    return _SHORT[match["one"]]


def number(text: str) -> tuple[Kind, str]:
    """Return the kind and text of a word: integers in decimal, dates as text. Raise TomlError."""
    if text in ("true", "false"):
        return Kind.BOOL, text
    if _DECIMAL.fullmatch(text):
        digits = text.replace("_", "").lstrip("+")
        return Kind.NUMBER, "0" if digits == "-0" else digits
    if _BASED.fullmatch(text):
        if len(text) > _MAX_DIGITS:
            raise TomlError("an integer of thousands of digits")
        return Kind.NUMBER, str(int(text, 0))
    if _FLOAT.fullmatch(text):
        return Kind.NUMBER, text
    if _NOT_FINITE.fullmatch(text):
        raise TomlError(f"{text} is no number that can be kept")
    return _moment(text)


def _moment(text: str) -> tuple[Kind, str]:
    for pattern, read in _MOMENTS:
        if pattern.fullmatch(text):
            try:
                read(re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", text.upper()))
            except ValueError:
                raise TomlError("no such date or time") from None
            return Kind.STRING, text
    raise TomlError("expected a value")


def quoted(text: str) -> str:
    """Return the text as a basic string."""
    return f'"{_UNSAFE.sub(_escaped, text)}"'


def _escaped(match: re.Match[str]) -> str:
    short = {value: f"\\{key}" for key, value in _SHORT.items()}
    return short.get(match[0]) or f"\\u{ord(match[0]):04X}"
