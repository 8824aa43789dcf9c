"""Values as values of a type, and as texts of bodies (reference: control-plane 6.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from mocks.templates.scope import AnswerTooLarge
from surfaces.mock_files.conditions import NUMBER

_INDENTED: Final = 64 * 2**10  # bytes up to which JSON is printed over several lines
FAILED: Final = object()


def coerce(value: Any, kind: str) -> Any:
    """Return a value as one of a type; a mark that is none of them if that is impossible."""
    return _COERCIONS[kind](value) if kind else value


def _to_string(value: Any) -> Any:
    return value if isinstance(value, str) else body_text(value)


def _to_number(value: Any) -> Any:
    if isinstance(value, bool):
        return FAILED
    if isinstance(value, int | float):  # an int may be larger than any float
        return value if isinstance(value, int) or math.isfinite(value) else FAILED
    if not isinstance(value, str) or NUMBER.fullmatch(text := value.strip()) is None:
        return FAILED
    if text.lstrip("-").isdecimal():
        return int(text)
    number = float(text)
    return number if math.isfinite(number) else FAILED


def _to_integer(value: Any) -> Any:
    number = _to_number(value)
    if isinstance(number, float):
        return int(number) if number.is_integer() else FAILED
    return number


def _to_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    text = value.strip().lower() if isinstance(value, str) else ""
    return text == "true" if text in ("true", "false") else FAILED


def _to_null(value: Any) -> Any:
    is_null = value is None or (isinstance(value, str) and value.strip() in ("", "null"))
    return None if is_null else FAILED


def _to_container(kind: type) -> Callable[[Any], Any]:
    def container(value: Any) -> Any:
        if isinstance(value, str):
            try:
                value = msgspec.json.decode(value)
            except (ValueError, RecursionError):
                return FAILED
        return value if isinstance(value, kind) else FAILED

    return container


_COERCIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "string": _to_string,
    "number": _to_number,
    "integer": _to_integer,
    "boolean": _to_boolean,
    "null": _to_null,
    "object": _to_container(dict),
    "array": _to_container(list),
}


def body_text(value: Any) -> str:
    """Return a value as a body shows it: a text as it is, objects and arrays as 2-space JSON."""
    if isinstance(value, str):
        return value
    try:
        made = msgspec.json.encode(value)
        if isinstance(value, dict | list) and len(made) <= _INDENTED:
            made = msgspec.json.format(made, indent=2)
    except RecursionError:
        raise AnswerTooLarge("the response is nested too deep") from None
    return made.decode()
