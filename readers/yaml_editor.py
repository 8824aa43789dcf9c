"""YAML files changed in place: comments, order, quotes and indentation stay as written."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

_WIDTH: Final = 2**20  # no line is wrapped that was not


def edit_yaml(text: str, change: Callable[[CommentedMap], None]) -> str:
    """Return the text after `change` of its root; a text without a value keeps its comments.

    Raise ruamel's YAMLError, and whatever `change` raises where the text has another shape.
    """
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = _WIDTH
    mapping, offset = _layout(text)
    yaml.indent(mapping=mapping, sequence=offset + 2, offset=offset)
    root = yaml.load(text)
    is_empty = root is None
    yaml.explicit_start = text.startswith("---") and not is_empty
    root = CommentedMap() if is_empty else root
    change(root)
    written = io.StringIO()
    yaml.dump(root, written)
    edited = written.getvalue()
    return f"{text.rstrip()}\n{edited}".lstrip() if is_empty else edited


def map_in(holder: CommentedMap, key: str) -> CommentedMap:
    """Return the map at a key, after making it where there is none."""
    if not isinstance(holder.get(key), CommentedMap):
        holder[key] = CommentedMap()
    found: CommentedMap = holder[key]
    return found


def list_in(holder: CommentedMap, key: str) -> CommentedSeq:
    """Return the list at a key, after making it where there is none."""
    if not isinstance(holder.get(key), CommentedSeq):
        holder[key] = CommentedSeq()
    found: CommentedSeq = holder[key]
    return found


def set_key(data: CommentedMap, key: str, value: Any) -> None:
    """Set a key; one that becomes blank goes, unless a comment stands at it."""
    if value == "" and key in data and key not in data.ca.items:
        del data[key]
    else:
        data[key] = value


def arrange_entries(entries: CommentedSeq, ids: Sequence[str], wanted: Sequence[str]) -> None:
    """Give a list of maps, whose ids are `ids`, the entries `wanted` in that order.

    Those that stay keep their content, new ones are empty; comments move with their entry.
    """
    is_flow = bool(entries) and isinstance(entries[0], CommentedMap) and entries[0].fa.flow_style()
    now = list(ids)
    for index in reversed(range(len(now))):
        if now[index] not in wanted:
            _delete(entries, index)
            del now[index]
    for position, entry_id in enumerate(wanted):
        if entry_id in now[position:]:
            _move(entries, now, now.index(entry_id, position), position)
        else:
            entries.insert(position, _new_entry(flow=is_flow))
            now.insert(position, entry_id)
    if is_flow is False and not len(entries):
        entries.fa.set_flow_style()


def _new_entry(*, flow: bool) -> CommentedMap:
    entry = CommentedMap()
    if flow:
        entry.fa.set_flow_style()
    return entry


def _delete(entries: CommentedSeq, index: int) -> None:
    """Delete an entry; the comment lines behind it belong to the next one, which keeps them."""
    lines = _comment_lines(entries[index])
    del entries[index]
    if lines and index < len(entries):
        column = entries.lc.col if entries.lc.col is not None else 0
        entries.yaml_set_comment_before_after_key(
            index, before="\n".join(lines), indent=max(column - 2, 0)
        )


def _comment_lines(entry: Any) -> list[str]:
    """Return the texts of the whole-line comments behind a block entry."""
    while isinstance(entry, CommentedMap | CommentedSeq) and entry and not entry.fa.flow_style():
        is_map = isinstance(entry, CommentedMap)
        last = next(reversed(entry)) if is_map else len(entry) - 1
        tokens = entry.ca.items.get(last)
        token = (tokens[2] if is_map else tokens[0]) if tokens else None
        if token is not None:
            below = token.value.partition("\n")[2] if token.value[:1] != "\n" else token.value
            return [line.strip()[1:].strip() for line in below.splitlines() if "#" in line]
        entry = entry[last]
    return []


def _move(entries: CommentedSeq, ids: list[str], at: int, to: int) -> None:
    if at == to:
        return
    comment = entries.ca.items.pop(at, None)
    entries.insert(to, entries.pop(at))
    ids.insert(to, ids.pop(at))
    if comment is not None:
        entries.ca.items[to] = comment


def _layout(text: str) -> tuple[int, int]:
    """Return the indentation of mappings, and that of the dashes of lists, as first seen."""
    mapping, offset, holder = 0, -1, -1  # holder: the column of a key whose value comes below
    for line in text.splitlines():
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        column = len(line) - len(line.lstrip())
        if holder >= 0 and content.startswith("- "):
            offset = max(column - holder, 0) if offset < 0 else offset
        elif holder >= 0 and column > holder:
            mapping = mapping or column - holder
        column += 2 * content.startswith("- ")
        holder = column if content.partition(" #")[0].rstrip().endswith(":") else -1
    return mapping or 2, max(offset, 0)
