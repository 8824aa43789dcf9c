"""The package time, without its clock-dependent half: durations, RFC 3339, simple layouts."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import Final

from cue.builtins.function import (
    BuiltinConstant,
    CallRefused,
    Failed,
    Function,
    Numeric,
    integer,
    package,
)
from cue.scalars import Type

_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_DURATION: Final = re.compile(rf"[+-]?(?:0|(?:{_PART.pattern})+)")
_MOST: Final = 2**63 - 1
_MAX_DIGITS: Final = 30
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?"
    r"(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
)
_LAYOUTS: Final = {
    "2006-01-02": r"(\d{4}-\d\d-\d\d)",
    "15:04": r"()([01]\d|2[0-3]):[0-5]\d",
    "15:04:05": r"()([01]\d|2[0-3]):[0-5]\d:[0-5]\d",
    "2006-01-02 15:04:05": r"(\d{4}-\d\d-\d\d) ([01]\d|2[0-3]):[0-5]\d:[0-5]\d",
    "2006-01-02T15:04:05": r"(\d{4}-\d\d-\d\d)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d",
    "2006-01-02T15:04:05Z07:00": _TIME.pattern,
}


def _parse(text: str) -> Numeric:
    if len(text) > _MAX_DIGITS:
        raise CallRefused("a duration of more than 30 characters")
    if not _DURATION.fullmatch(text):
        raise Failed("invalid duration")
    total = sum(Decimal(count) * _UNITS[unit] for count, unit in _PART.findall(text))
    if total != int(total):
        raise CallRefused("a part of a nanosecond")
    if total > _MOST:
        raise Failed("invalid duration")
    return integer(-int(total) if text.startswith("-") else int(total))


def _is_duration(text: str) -> bool:
    try:
        _parse(text)
    except Failed:
        return False
    return True


def _spell(nanoseconds: int) -> str:
    """As Go prints it: `1h30m0s`, `1.5s`, `20ms`."""
    if not nanoseconds:
        return "0s"
    sign, left = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    for unit, after in (("ns", "us"), ("us", "ms"), ("ms", "s")):
        if left < _UNITS[after]:
            text = f"{(Decimal(left) / _UNITS[unit]).normalize():f}"
            return f"{sign}{text}{'µs' if unit == 'us' else unit}"
    minutes, rest = divmod(left, _UNITS["m"])
    seconds = f"{(Decimal(rest) / _UNITS['s']).normalize():f}s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _fits(text: str, pattern: str) -> bool:
    match = re.fullmatch(pattern, text, re.ASCII)
    if match is None:
        if re.search(r"T24|:60|,", text):
            raise CallRefused("an unusual time")
        return False
    return not match[1] or _is_date(match[1])


def _is_date(text: str) -> bool:
    if text.startswith("0000"):
        raise CallRefused("the year 0")
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _has_layout(text: str, layout: str) -> bool:
    if layout not in _LAYOUTS:
        raise CallRefused("a layout of times that is not among the usual ones")
    return _fits(text, _LAYOUTS[layout])


_NAMES: Final = {
    "Nanosecond": 1,
    "Microsecond": 10**3,
    "Millisecond": 10**6,
    "Second": 10**9,
    "Minute": 60 * 10**9,
    "Hour": 3600 * 10**9,
}
TIME: Final = package(
    "time",
    *(BuiltinConstant(f"time.{name}", integer(value)) for name, value in _NAMES.items()),
    BuiltinConstant("time.RFC3339", "2006-01-02T15:04:05Z07:00"),
    BuiltinConstant("time.RFC3339Date", "2006-01-02"),
    Function("time.Duration", "s", _is_duration, Type.STRING),
    Function("time.Format", "ss", _has_layout, Type.STRING),
    Function("time.FormatDuration", "i", _spell),
    Function("time.ParseDuration", "s", _parse),
    Function("time.Time", "s", lambda text: _fits(text, _TIME.pattern), Type.STRING),
)
