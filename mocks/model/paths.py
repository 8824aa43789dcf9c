"""Paths into JSON values, and how values read as text (reference: control-plane 18.3, 18.6)."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

Step = str | int
MAX_STEPS: Final = 50
_INDEX_DIGITS: Final = 9
_STEP: Final = re.compile(
    r"""(?P<dot>[./])?(?:(?P<name>[^\s.\[\]/|"'{}]+)"""
    r"""|\[\s*(?:(?P<index>\d+)|"(?P<double>[^"]*)"|'(?P<single>[^']*)')\s*\])""",
    re.ASCII,
)


class _Missing:
    """What a path without a value leads to; JSON null is a value."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


def parse_path(text: str) -> tuple[Step, ...] | None:
    """Return the steps of `card.type`, `items[0].id` or `a/b["c"]`; None for another text."""
    steps: list[Step] = []
    at = 0
    while at < len(text) and len(steps) < MAX_STEPS:
        found = _STEP.match(text, at)
        # a name needs its dot or slash, unless it is the first; a bracket has none
        if found is None or (bool(found["dot"]) != (found["name"] is not None and at > 0)):
            return None
        steps.append(_step(found))
        at = found.end()
    return tuple(steps) if steps and at == len(text) else None


def _step(found: re.Match[str]) -> Step:
    if found["index"] is not None:
        digits = found["index"]
        return int(digits) if len(digits) <= _INDEX_DIGITS else 10**_INDEX_DIGITS
    for group in ("name", "double", "single"):
        if found[group] is not None:
            return found[group]
    raise AssertionError("a step has one of these groups")


def value_at(value: Any, steps: tuple[Step, ...]) -> Any:
    """Return what stands at a path, or MISSING. A name of digits is also an index of a list."""
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step, MISSING)
        elif isinstance(value, list):
            index = step if isinstance(step, int) else _index(step)
            value = value[index] if 0 <= index < len(value) else MISSING
        else:
            return MISSING
    return value


def _index(name: str) -> int:
    is_index = name.isascii() and name.isdecimal() and len(name) <= _INDEX_DIGITS
    return int(name) if is_index else -1


def json_text(value: Any) -> str:
    """Return a value as JSON without white space.

    What is nested too deep, or no Unicode, is empty.
    """
    try:
        return msgspec.json.encode(value).decode()
    except (RecursionError, UnicodeEncodeError):
        return ""


def text_of_value(value: Any) -> str | None:
    """Return a value as conditions compare it: its text or JSON text, None if it is missing."""
    if isinstance(value, str):
        return value
    return None if value is MISSING else json_text(value)
