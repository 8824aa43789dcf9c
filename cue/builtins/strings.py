"""The package strings; offsets count bytes of UTF-8, as Go's do."""

from __future__ import annotations

import re
from typing import Final

from cue.builtins.function import (
    MAX_LENGTH,
    CallRefused,
    Failed,
    Function,
    bounded,
    integer,
    package,
)
from cue.scalars import Type

_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_FIELDS: Final = re.compile(f"[^{re.escape(_SPACE)}]+")
_CERTAIN: Final = re.compile("[\x00-\x7f\xc0-\xd6\xd8-\xde\xe0-\xf6\xf8-\xfe]*")


def _with_case(text: str) -> str:
    """Text whose capitals are the same in every edition of Unicode."""
    if not _CERTAIN.fullmatch(text):
        raise CallRefused("the case of letters beyond Latin 1")
    return text.replace("ß", "\0")  # Go knows one letter for one letter


def _upper(text: str) -> str:
    if "ß" in text:
        raise CallRefused("the case of letters beyond Latin 1")
    return _with_case(text).upper()


def _lower(text: str) -> str:
    if "ß" in text:
        return "ß".join(_lower(part) for part in text.split("ß"))
    return _with_case(text).lower()


def _first_letters(text: str, *, upper: bool) -> str:
    made, before = [], " "
    for letter in text:
        changed = letter
        if before in _SPACE:
            changed = _upper(letter) if upper else _lower(letter)
        made.append(changed)
        before = letter
    return "".join(made)


def _slice(text: str, start: int, end: int) -> str:
    if not 0 <= start <= end <= len(text):
        raise Failed("index out of range")
    return text[start:end]


def _split(text: str, separator: str, count: int, *, after: bool = False) -> list[str]:
    if count == 0:
        raise CallRefused("a split into no parts")
    limit = -1 if count < 0 else count - 1
    if separator:
        parts = text.split(separator, limit)
    elif limit < 0 or len(text) <= count:
        parts = list(text)
    else:
        parts = [*text[:limit], text[limit:]]
    if after:
        parts = [f"{part}{separator}" for part in parts[:-1]] + parts[-1:]
    return parts


def _repeat(text: str, count: int) -> str:
    if count < 0:
        raise Failed("negative count")
    if len(text) * count > MAX_LENGTH:
        raise CallRefused(f"a text of more than {MAX_LENGTH} characters")
    return text * count


def _replace(text: str, old: str, new: str, count: int) -> str:
    places = (len(text) + 1) if not old else text.count(old)
    if len(text) + places * len(new) > MAX_LENGTH:
        raise CallRefused(f"a text of more than {MAX_LENGTH} characters")
    return text.replace(old, new, count if count >= 0 else -1)


STRINGS: Final = package(
    "strings",
    Function("strings.Compare", "ss", lambda one, other: integer((one > other) - (one < other))),
    Function("strings.Contains", "ss", lambda text, part: part in text),
    Function("strings.ContainsAny", "ss", lambda text, some: any(one in text for one in some)),
    Function("strings.Count", "ss", lambda text, part: integer(text.count(part))),
    Function("strings.Fields", "s", _FIELDS.findall),
    Function("strings.HasPrefix", "ss", str.startswith),
    Function("strings.HasSuffix", "ss", str.endswith),
    Function("strings.Index", "ss", lambda text, part: integer(text.encode().find(part.encode()))),
    Function(
        "strings.LastIndex", "ss", lambda text, part: integer(text.encode().rfind(part.encode()))
    ),
    Function("strings.Join", "Ss", lambda texts, separator: bounded(separator.join(texts))),
    Function("strings.MaxRunes", "si", lambda text, most: len(text) <= most, Type.STRING),
    Function("strings.MinRunes", "si", lambda text, least: len(text) >= least, Type.STRING),
    Function("strings.Repeat", "si", _repeat),
    Function("strings.Replace", "sssi", _replace),
    Function("strings.Runes", "s", lambda text: [integer(ord(letter)) for letter in text]),
    Function("strings.SliceRunes", "sii", _slice),
    Function("strings.Split", "ss", lambda text, sign: _split(text, sign, -1)),
    Function("strings.SplitAfter", "ss", lambda text, sign: _split(text, sign, -1, after=True)),
    Function("strings.SplitN", "ssi", _split),
    Function("strings.ToCamel", "s", lambda text: _first_letters(text, upper=False)),
    Function("strings.ToLower", "s", _lower),
    Function("strings.ToTitle", "s", lambda text: _first_letters(text, upper=True)),
    Function("strings.ToUpper", "s", _upper),
    Function("strings.Trim", "ss", lambda text, some: text.strip(some) if some else text),
    Function("strings.TrimLeft", "ss", lambda text, some: text.lstrip(some) if some else text),
    Function("strings.TrimPrefix", "ss", str.removeprefix),
    Function("strings.TrimRight", "ss", lambda text, some: text.rstrip(some) if some else text),
    Function("strings.TrimSpace", "s", lambda text: text.strip(_SPACE)),
    Function("strings.TrimSuffix", "ss", str.removesuffix),
)
