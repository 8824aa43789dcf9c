"""A settings file with other values: comments, key order and style stay as they were written.

Only what differs in meaning is touched, so that a secret stays as it stands in the file, and a key
that has its default need not be there.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import LiteralScalarString

from apps.platform_settings.domain.keys import (
    AGENTS,
    INSTALLATION,
    OVERRIDES,
    REGISTRIES,
    SECRETS,
    SMTP,
    WORKSPACES,
    Group,
    Key,
)
from apps.platform_settings.domain.wire import NotMergeable, Version, Wire

_WIDTH: Final = 10_000  # no line is wrapped that was not


def merged_text(text: str, file: Version, new: Version) -> str:
    """Return the file's text with the values of `new`; raise NotMergeable.

    `file` is what the text says now.
    """
    try:
        yaml = YAML()
        yaml.preserve_quotes = True
        yaml.width = _WIDTH
        mapping, offset = _layout(text)
        yaml.indent(mapping=mapping, sequence=offset + 2, offset=offset)
        data = yaml.load(text)
        is_empty = data is None
        root = CommentedMap() if is_empty else data
        yaml.explicit_start = text.startswith("---") and not is_empty
        _merge(root, file, new)
        stream = io.StringIO()
        yaml.dump(root, stream)
    except (YAMLError, AttributeError, KeyError, IndexError, TypeError) as error:
        raise NotMergeable(f"{type(error).__name__} while it was merged") from error
    return f"{text.rstrip()}\n{stream.getvalue()}".lstrip() if is_empty else stream.getvalue()


def new_text(written: Wire) -> str:
    """Return a file that says this, without what has its default."""
    root = CommentedMap()
    nothing: Wire = {"mode": "local", "description": "", "agents": [], "registries": []}
    nothing |= {"workspaces": []}
    nothing |= {"secrets": {"globalOverrides": []}, "notifications": {"smtp": {}}}
    _merge(root, Version(nothing, nothing), Version(written, written))
    yaml = YAML()
    yaml.width = _WIDTH
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    yaml.dump(root, stream)
    return stream.getvalue()


def _merge(root: CommentedMap, file: Version, new: Version) -> None:
    for key in INSTALLATION.settable:
        if file.meaning[key.name] != new.meaning[key.name]:
            _set(root, key.name, new.written[key.name])
    for group in (AGENTS, WORKSPACES, REGISTRIES):
        _merge_list(root, group, file, new)
    inner = [Version(each.written["secrets"], each.meaning["secrets"]) for each in (file, new)]
    if inner[0].meaning != inner[1].meaning:
        secrets = _map_in(root, "secrets")
        _merge_map(secrets, SECRETS, *inner)
        _merge_list(secrets, OVERRIDES, *inner)
    smtp = [
        Version(each.written["notifications"]["smtp"], each.meaning["notifications"]["smtp"])
        for each in (file, new)
    ]
    if not _is_same(SMTP, smtp[0].meaning, smtp[1].meaning):
        _merge_map(_map_in(_map_in(root, "notifications"), "smtp"), SMTP, *smtp)


def _map_in(holder: CommentedMap, key: str) -> CommentedMap:
    if not isinstance(holder.get(key), CommentedMap):
        holder[key] = CommentedMap()
    found: CommentedMap = holder[key]
    return found


def _is_same(group: Group, old: Wire, new: Wire) -> bool:
    return all(_value(key, old) == _value(key, new) for key in group.settable)


def _value(key: Key, wire: Wire) -> Any:
    return wire.get(key.name, key.default_value)


def _merge_map(data: CommentedMap, group: Group, file: Version, new: Version) -> None:
    for key in group.settable:
        value = _value(key, new.meaning)
        is_missing = key.name == "type" and not file.meaning  # of a new entry, where it must stand
        if is_missing or _value(key, file.meaning) != value:
            _set(data, key.name, _node(new.written[key.name]))


def _set(data: CommentedMap, key: str, value: Any) -> None:
    """Set a key; one that becomes blank goes, unless a comment stands at it."""
    if value == "" and key in data and key not in data.ca.items:
        del data[key]
    else:
        data[key] = value


def _merge_list(holder: CommentedMap, group: Group, file: Version, new: Version) -> None:
    name = group.path[-1]
    old_meaning, new_meaning = file.meaning[name], new.meaning[name]
    if old_meaning == new_meaning:
        return
    if not isinstance(holder.get(name), CommentedSeq):
        holder[name] = CommentedSeq()
    entries, identity = holder[name], group.identity
    is_flow = bool(entries) and isinstance(entries[0], CommentedMap) and entries[0].fa.flow_style()
    ids = [entry[identity] for entry in old_meaning]
    wanted = [entry[identity] for entry in new_meaning]
    for index in reversed(range(len(ids))):
        if ids[index] not in wanted:
            _delete(entries, index)
            del ids[index]
    before = {entry[identity]: entry for entry in old_meaning}
    for position, entry_id in enumerate(wanted):
        versions = (
            Version(before.get(entry_id, {}), before.get(entry_id, {})),
            Version(new.written[name][position], new_meaning[position]),
        )
        if entry_id in ids:
            _move(entries, ids, ids.index(entry_id), position)
        else:
            entries.insert(position, _new_entry(flow=is_flow))
            ids.insert(position, entry_id)
        _merge_map(entries[position], group, *versions)
    if is_flow is False and not len(entries):
        entries.fa.set_flow_style()


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


def _new_entry(*, flow: bool) -> CommentedMap:
    entry = CommentedMap()
    if flow:
        entry.fa.set_flow_style()
    return entry


def _move(entries: CommentedSeq, ids: list[str], at: int, to: int) -> None:
    if at == to:
        return
    comment = entries.ca.items.pop(at, None)
    entries.insert(to, entries.pop(at))
    ids.insert(to, ids.pop(at))
    if comment is not None:
        entries.ca.items[to] = comment


def _node(value: Any) -> Any:
    if isinstance(value, str):
        return LiteralScalarString(value) if "\n" in value else value
    if isinstance(value, list):
        texts = CommentedSeq(value)
        texts.fa.set_flow_style()
        return texts
    return value if not isinstance(value, Mapping) else CommentedMap(value)
