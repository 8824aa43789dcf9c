"""Changes of one key in the text of a YAML mapping; all else, comments included, stays as it is."""

from __future__ import annotations

import json
import re
from typing import Final

from readers import Unreadable
from readers.yaml import Node, read_yaml

_PLAIN: Final = re.compile(r"^(?!(?:null|true|false)\Z)[a-z][a-z0-9-]*\Z")


class NotEditable(Exception):
    """The text is written in a way that does not allow the change."""


def with_key(text: str, key: str, value: str | bool | None) -> str:  # noqa: FBT001 - a value
    """Return the text with a top-level key set; raise NotEditable. None unsets a key.

    The text must be a readable mapping.
    """
    spelled = _spell(value)
    root = read_yaml(text)
    for made in _candidates(text, root, key, spelled):
        if made is not None and _differs_only_in(key, text, made, value):
            return made
    raise NotEditable(f'set "{key}" to {spelled} in the YAML: it cannot be changed there')


def _spell(value: str | bool | None) -> str:  # noqa: FBT001
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return value if _PLAIN.match(value) else json.dumps(value)


def _candidates(text: str, root: Node, key: str, spelled: str) -> list[str | None]:
    pairs = root.pairs or []
    known = next((pair for pair in pairs if pair[0].text == key), None)
    if known is not None:
        return [_replace_scalar(text, known, spelled)]
    lines = text.splitlines(keepends=True)
    entry = f"{key}: {spelled}"
    first = lines[root.line - 1] if lines else ""
    if first[root.column - 1 : root.column] == "{":
        inside = f"{entry}, " if pairs else entry
        return [_splice(lines, root.line, root.column + 1, inside, length=0)]
    indent = " " * (root.column - 1)
    after = _splice(lines, root.line + 1, 1, f"{indent}{entry}\n", length=0)
    before = _splice(lines, root.line, 1, f"{indent}{entry}\n", length=0)
    return [after, before]


def _replace_scalar(text: str, pair: tuple[Node, Node], spelled: str) -> str | None:
    """Return the text with another scalar, whose old source is found by trying its ends."""
    name, value = pair
    if value.text is None or value.anchored:
        return None
    lines = text.splitlines(keepends=True)
    if value.text == "" and value.plain:  # nothing stands behind the colon
        line = lines[name.line - 1]
        colon = line.find(":", name.column - 1 + len(name.text or ""))
        return _splice(lines, name.line, colon + 2, f" {spelled}", length=0)
    source = lines[value.line - 1][value.column - 1 :]
    quoted = re.match(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\n]|\'\')*\'', source)
    length = quoted.end() if quoted and not value.plain else len(value.text)
    return _splice(lines, value.line, value.column, spelled, length=length)


def _splice(lines: list[str], line: int, column: int, new: str, *, length: int) -> str:
    if line > len(lines):
        end = "" if not lines or lines[-1].endswith("\n") else "\n"
        return "".join(lines) + end + new
    old = lines[line - 1]
    changed = old[: column - 1] + new + old[column - 1 + length :]
    return "".join([*lines[: line - 1], changed, *lines[line:]])


def _differs_only_in(key: str, before: str, after: str, value: object) -> bool:
    try:
        old, new = read_yaml(before).data(), read_yaml(after).data()
    except Unreadable:
        return False
    return isinstance(new, dict) and new == {**old, key: value}
