"""The package regexp, by RE2, whose syntax is Go's."""

from __future__ import annotations

import re
from typing import Any, Final

import re2

from cue.builtins.function import CallRefused, Failed, Function, bounded, package

_QUIET: Final = re2.Options()
_QUIET.log_errors = False
_MAX_SEARCHED: Final = 8192  # each match costs a pass over the text
_VARIABLE: Final = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\}|)", re.ASCII)


def _compiled(pattern: str) -> Any:
    try:
        return re2.compile(pattern, options=_QUIET)
    except re2.error:
        raise Failed("the pattern is no regular expression (RE2)") from None


def _first(pattern: str, text: str) -> Any:
    found = _compiled(pattern).search(text)
    if found is None:
        raise Failed("no match")
    return found


def _searched(pattern: str, text: str) -> list[Any]:
    compiled = _compiled(pattern)
    if compiled.search("") is not None:
        raise CallRefused("all matches of a pattern that matches nothing")
    if len(text) > _MAX_SEARCHED:
        raise CallRefused(f"all matches in more than {_MAX_SEARCHED} characters")
    return list(compiled.finditer(text))


def _all(pattern: str, text: str, count: int) -> list[Any]:
    found = _searched(pattern, text)
    if not found or not count:
        raise Failed("no match")
    return found[:count] if count > 0 else found


def _groups(found: Any) -> list[str]:
    return [found.group(0), *(group or "" for group in found.groups())]


def _named(pattern: str, text: str) -> dict[str, str]:
    found = _first(pattern, text)
    names = _compiled(pattern).groupindex
    if not names:
        raise Failed("no named groups")
    return {name: found.group(index) or "" for name, index in names.items()}


def _replaced(pattern: str, text: str, template: str, *, literal: bool = False) -> str:
    names = _compiled(pattern).groupindex
    made, at = [], 0
    for found in _searched(pattern, text):
        made.append(text[at : found.start()])
        made.append(template if literal else _expanded(template, found, names))
        at = found.end()
    return bounded("".join([*made, text[at:]]))


def _expanded(template: str, found: Any, names: dict[str, int]) -> str:
    def value(variable: re.Match[str]) -> str:
        name = variable[2] or variable[3]
        if name is None:
            return "$"
        index = int(name) if name.isdigit() else names.get(name, -1)
        return (found.group(index) or "") if 0 <= index <= len(found.groups()) else ""

    return _VARIABLE.sub(value, template)


def _is_valid(pattern: str) -> bool:
    _compiled(pattern)
    return True


def _quoted(text: str) -> str:
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)


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
    Function("regexp.FindNamedSubmatch", "ss", _named),
    Function("regexp.FindSubmatch", "ss", lambda pattern, text: _groups(_first(pattern, text))),
    Function(
        "regexp.Match", "ss", lambda pattern, text: _compiled(pattern).search(text) is not None
    ),
    Function("regexp.QuoteMeta", "s", _quoted),
    Function("regexp.ReplaceAll", "sss", _replaced),
    Function(
        "regexp.ReplaceAllLiteral",
        "sss",
        lambda pattern, text, new: _replaced(pattern, text, new, literal=True),
    ),
    Function("regexp.Valid", "s", _is_valid),
)
