"""The packages strings, whose offsets count bytes of UTF-8 as Go's do, and regexp, by RE2."""

from __future__ import annotations

import re
from typing import Any, Final

import re2

from cue.builtins.function import (
    MAX_LENGTH,
    CallRefused,
    Failed,
    Function,
    check_length,
    integer,
    package,
)
from cue.scalars import Type

_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_FIELDS: Final = re.compile(f"[^{re.escape(_SPACE)}]+")
_CERTAIN: Final = re.compile("[\x00-\x7f\xc0-\xd6\xd8-\xde\xe0-\xf6\xf8-\xfe]*")
_QUIET: Final = re2.Options()
_QUIET.log_errors = False
_MAX_SEARCHED: Final = 8192  # each match costs a pass over the text
_VARIABLE: Final = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\}|)", re.ASCII)


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
    Function("strings.Join", "Ss", lambda texts, separator: check_length(separator.join(texts))),
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


def _compile(pattern: str) -> Any:
    try:
        return re2.compile(pattern, options=_QUIET)
    except re2.error:
        raise Failed("the pattern is not a regular expression (RE2)") from None


def _first(pattern: str, text: str) -> Any:
    found = _compile(pattern).search(text)
    if found is None:
        raise Failed("no match")
    return found


def _search(pattern: str, text: str) -> list[Any]:
    compiled = _compile(pattern)
    if compiled.search("") is not None:
        raise CallRefused("all matches of a pattern that matches nothing")
    if len(text) > _MAX_SEARCHED:
        raise CallRefused(f"all matches in more than {_MAX_SEARCHED} characters")
    return list(compiled.finditer(text))


def _all(pattern: str, text: str, count: int) -> list[Any]:
    found = _search(pattern, text)
    if not found or not count:
        raise Failed("no match")
    return found[:count] if count > 0 else found


def _groups(found: Any) -> list[str]:
    return [found.group(0), *(group or "" for group in found.groups())]


def _named_groups(pattern: str, text: str) -> dict[str, str]:
    found = _first(pattern, text)
    names = _compile(pattern).groupindex
    if not names:
        raise Failed("no named groups")
    return {name: found.group(index) or "" for name, index in names.items()}


def _replace_matches(pattern: str, text: str, template: str, *, literal: bool = False) -> str:
    names = _compile(pattern).groupindex
    made, at = [], 0
    for found in _search(pattern, text):
        made.append(text[at : found.start()])
        made.append(template if literal else _expand(template, found, names))
        at = found.end()
    return check_length("".join([*made, text[at:]]))


def _expand(template: str, found: Any, names: dict[str, int]) -> str:
    def value(variable: re.Match[str]) -> str:
        name = variable[2] or variable[3]
        if name is None:
            return "$"
        index = int(name) if name.isdigit() else names.get(name, -1)
        return (found.group(index) or "") if 0 <= index <= len(found.groups()) else ""

    return _VARIABLE.sub(value, template)


REGEXP: Final = package(
    "regexp",
    Function("regexp.Find", "ss", lambda pattern, text: _first(pattern, text).group(0)),
    Function(
        "regexp.FindAll",
        "ssi",
        lambda pattern, text, count: [each.group(0) for each in _all(pattern, text, count)],
    ),
    Function(
        "regexp.FindAllSubmatch",
        "ssi",
        lambda pattern, text, count: [_groups(each) for each in _all(pattern, text, count)],
    ),
    Function("regexp.FindNamedSubmatch", "ss", _named_groups),
    Function("regexp.FindSubmatch", "ss", lambda pattern, text: _groups(_first(pattern, text))),
    Function(
        "regexp.Match", "ss", lambda pattern, text: _compile(pattern).search(text) is not None
    ),
    Function("regexp.QuoteMeta", "s", lambda text: re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)),
    Function("regexp.ReplaceAll", "sss", _replace_matches),
    Function(
        "regexp.ReplaceAllLiteral",
        "sss",
        lambda pattern, text, new: _replace_matches(pattern, text, new, literal=True),
    ),
    Function("regexp.Valid", "s", lambda pattern: _compile(pattern) is not None),
)
