"""Durations and sizes as people write them."""

from __future__ import annotations

import re
from typing import Final

_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_IN_SECONDS_MS: Final = 120_000  # 90 s is read more easily than 1 min 30 s
_TENTHS_BELOW_MS: Final = 10_000  # a tenth of a second matters
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_PERIOD_UNIT_S: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_PERIOD_PART: Final = re.compile(r"(\d+)(ms|s|m|h|d)")
_MAX_DIGITS: Final = 12
_SIZE_UNITS: Final = {
    "": 1,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
}
_SIZE = re.compile(r"^(\d+(?:\.\d+)?)(Ki|Mi|Gi|K|M|G)?\Z")


def parse_duration_ms(value: str | float) -> int:
    """`"500ms"`, `"30s"`, `"1m30s"`, `"2h"`, or seconds as a number → milliseconds, more than 0.

    Raises ValueError, with a sentence, for anything else.
    """
    total = _number_ms(value) if isinstance(value, int | float) else _text_ms(value)
    if total <= 0:
        raise ValueError(f"{value!r}: a duration must be more than 0")
    return total


def parse_period_s(text: str) -> float:
    """`"500ms"`, `"1h30m"`, `"7d"` or whole seconds (`"30"`) → seconds, 0 allowed.

    Raises ValueError, with a sentence, for anything else.
    """
    if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
        return float(text)
    parts = _PERIOD_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text[:40]!r}: expected a duration such as 500ms, 30s, 1h30m or 7d")
    if any(len(number) > _MAX_DIGITS for number, _unit in parts):
        raise ValueError(f"{text[:40]!r}: too long for a duration")
    return round(sum(int(number) * _PERIOD_UNIT_S[unit] for number, unit in parts), 3)


def parse_bytes(value: str | int) -> int:
    """`"512Mi"`, `"4Gi"`, `"1G"` or a number of bytes → bytes. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.match(str(value))
    if not match:
        raise ValueError(f"{value!r}: expected a size such as 512Mi or 4Gi")
    return int(float(match[1]) * _SIZE_UNITS[match[2] or ""])


def parse_cpu(value: str | float) -> float:
    """`2`, `0.5` or `"500m"` → CPUs, more than 0. Raises ValueError."""
    try:
        cpus = (
            float(value[:-1]) / 1000
            if isinstance(value, str) and value.endswith("m")
            else float(value)
        )
    except ValueError:
        raise ValueError(f'{value!r}: expected CPUs such as 2 or "500m"') from None
    if not 0 < cpus < float("inf"):
        raise ValueError(f"{value!r}: CPUs must be more than 0")
    return cpus


def format_duration(seconds: float) -> str:
    """Format a duration for people: `250 ms`, `25 s`, `1.5 s`, `10 min`, `2 h 30 min`, `90 s`.

    Exact to the millisecond: a unit appears where the rest is not 0.
    """
    whole_ms = round(seconds * 1000)
    if whole_ms < _UNIT_MS["s"]:
        return f"{whole_ms} ms"
    if whole_ms < _IN_SECONDS_MS or whole_ms % _UNIT_MS["s"]:
        return f"{whole_ms / _UNIT_MS['s']:.10g} s"
    hours, rest = divmod(whole_ms // _UNIT_MS["s"], 3600)
    parts = ((hours, "h"), (rest // 60, "min"), (rest % 60, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def rounded_duration(duration_ms: int) -> str:
    """Return a duration for people: `250 ms`, `4.2 s`, `41 s`, `3 min 20 s`."""
    if duration_ms < _UNIT_MS["s"]:
        return format_duration(duration_ms / 1000)
    digits = 1 if duration_ms < _TENTHS_BELOW_MS else 0
    return format_duration(round(duration_ms / 1000, digits))


def _number_ms(value: float) -> int:
    if isinstance(value, bool) or not value < float("inf"):
        raise ValueError(f"{value!r}: expected a duration such as 30s")
    return round(value * 1000)


def _text_ms(value: str) -> int:
    parts = _PART.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError(f"{value!r}: expected a duration such as 500ms, 30s or 1m30s")
    return round(sum(float(number) * _UNIT_MS[unit] for number, unit in parts))
