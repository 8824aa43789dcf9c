"""Paths into JSON values, and how values read as text (reference: control-plane 18.3, 18.6)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from surfaces.template_paths import INDEX_DIGITS, Step


class _Missing:
    """What a path without a value leads to; JSON null is a value."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


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
    is_index = name.isascii() and name.isdecimal() and len(name) <= INDEX_DIGITS
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
