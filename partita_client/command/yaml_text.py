"""JSON values as YAML, block style, without a library: what any YAML reader reads back equal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

# beyond doubt a string in YAML 1.1 and 1.2; everything else is quoted
_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./()-]+)*\Z")
_WORDS: Final = frozenset(
    {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"}
)


def yaml_text(document: Any) -> str:
    """Return the document with a line end after its last line."""
    return "".join(f"{line}\n" for line in _lines(document, 0))


def _lines(value: Any, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if isinstance(value, dict) and value:
        for key, entry in value.items():
            yield from _entry_lines(f"{indent}{_scalar(str(key))}:", entry, depth)
    elif isinstance(value, list) and value:
        for entry in value:
            first, *rest = _lines(entry, depth + 1)
            yield f"{indent}- {first[len(indent) + 2 :]}"
            yield from rest
    else:
        yield f"{indent}{_scalar(value)}"


def _entry_lines(name: str, entry: Any, depth: int) -> Iterator[str]:
    if _is_block(entry):
        yield name
        # a list may stand at the depth of its key
        yield from _lines(entry, depth if isinstance(entry, list) else depth + 1)
    else:
        yield f"{name} {_scalar(entry)}"


def _is_block(value: Any) -> bool:
    return isinstance(value, dict | list) and bool(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        is_plain = _PLAIN.match(value) and value.lower() not in _WORDS
        return value if is_plain else _in_quotes(value)
    if isinstance(value, float) and "e" in repr(value):
        mantissa, _, exponent = repr(value).partition("e")  # YAML 1.1 wants a point and a sign
        point = "" if "." in mantissa else ".0"
        sign = "" if exponent.startswith("-") else "+"
        return f"{mantissa}{point}e{sign}{exponent.lstrip('+')}"
    return json.dumps(value)  # numbers, true, false, null, {} and []


def _in_quotes(text: str) -> str:
    """Return a double-quoted string: JSON's escapes are YAML's, but for pairs of surrogates."""
    if text.isprintable():
        return json.dumps(text, ensure_ascii=False)
    return "".join(['"', *map(_escape, text), '"'])


def _escape(letter: str) -> str:
    if letter < "\x7f":
        return json.dumps(letter)[1:-1]
    code = ord(letter)
    if code > 0xFFFF:  # noqa: PLR2004 - beyond the basic plane
        return f"\\U{code:08x}"
    return f"\\u{code:04x}"
