"""JSON from outside (RFC 8259): UTF-8, bounded nesting, no duplicate keys, no NUL or surrogate."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from readers import Unreadable

MAX_DEPTH: Final = 64
EXTRA_DATA: Final = "Extra data"  # the reason for what follows a document; with its place
# A string without an end goes on to the end of the text, so that each character is read once.
_STRING_OR_BRACKET: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{\]}]', re.DOTALL)
_NOT_TEXT: Final = re.compile("[\0\ud800-\udfff]")


def read_json(
    raw: bytes,
    *,
    max_bytes: int = 10 * 2**20,
    max_depth: int = MAX_DEPTH,
    any_string: bool = False,
) -> Any:
    """Return the value of one JSON document; raise Unreadable, with a position where known.

    With `any_string`, strings may hold NUL and halves of surrogate pairs, as `is_text` tells.
    """
    if len(raw) > max_bytes:
        raise Unreadable(f"larger than {max_bytes} bytes")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 at byte {error.start}") from None
    _refuse_deep(text, max_depth)
    value = _parse(text)
    if not any_string and ("\\u" in text or "\0" in text):
        refuse_bad_strings(value)
    return value


def _parse(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise Unreadable(error.msg, line=error.lineno, column=error.colno) from None
    except Unreadable:
        raise
    except ValueError as error:  # a number of thousands of digits
        raise Unreadable(str(error)) from None


def _refuse_deep(text: str, max_depth: int) -> None:
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        if match[0] in "[{":
            depth += 1
            if depth > max_depth:
                raise Unreadable(f"nested more than {max_depth} deep")
        elif match[0] in "]}":
            depth -= 1


def _refuse_constant(name: str) -> NoReturn:
    raise Unreadable(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, object]:
    made: dict[str, object] = {}
    for key, value in pairs:
        if key in made:
            raise Unreadable(f'the key "{key[:80]}" occurs twice')
        made[key] = value
    return made


def escape_pointer(name: str) -> str:
    """Return a name as a part of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def unescape_pointer(part: str) -> str:
    """Return the name that a part of a JSON pointer stands for."""
    return part.replace("~1", "/").replace("~0", "~")


def is_text(value: str) -> bool:
    """Return whether a string holds neither NUL nor half of a surrogate pair."""
    return _NOT_TEXT.search(value) is None


def refuse_bad_strings(value: Any) -> None:
    """Raise Unreadable for a value with a string that is not text."""
    if isinstance(value, str) and not is_text(value):
        raise Unreadable("a string holds NUL or half of a surrogate pair")
    if isinstance(value, dict):
        for key, item in value.items():
            refuse_bad_strings(key)
            refuse_bad_strings(item)
    if isinstance(value, list):
        for item in value:
            refuse_bad_strings(item)
