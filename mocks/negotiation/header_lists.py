"""Lists in headers, whose entries may hold quoted texts (RFC 9110, 5.6)."""

from __future__ import annotations

from typing import Final

MAX_TEXT: Final = 8_192  # characters of a header that are read
MAX_ENTRIES: Final = 100


def split_list(text: str, separators: str) -> list[str]:
    """Return the entries between separators outside of quotes, without the blank ones."""
    text = text[:MAX_TEXT]
    if '"' not in text:
        for each in separators[1:]:
            text = text.replace(each, separators[0])
        return _without_blank(text.split(separators[0]))
    parts: list[str] = []
    start, is_quoted, at = 0, False, 0
    while at < len(text):
        letter = text[at]
        if letter == '"':
            is_quoted = not is_quoted
        elif letter == "\\" and is_quoted:
            at += 1
        elif letter in separators and not is_quoted:
            parts.append(text[start:at])
            start = at + 1
        at += 1
    return _without_blank([*parts, text[start:]])


def _without_blank(parts: list[str]) -> list[str]:
    return [found for each in parts[: 2 * MAX_ENTRIES] if (found := each.strip())][:MAX_ENTRIES]


def split_parameter(text: str) -> tuple[str, str]:
    """Return name in lower case and value of `name=value`, the value without its quotes."""
    name, _, value = text.partition("=")
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] == '"':
        quoted = value[1:-1].split("\\\\")
        value = "\\".join(each.replace("\\", "") for each in quoted)
    return name.strip().lower(), value
