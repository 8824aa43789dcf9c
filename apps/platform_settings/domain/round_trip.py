"""A settings file with other values: comments, key order and style stay as they were written.

Only what differs in meaning is touched, so that a secret stays as it stands in the file, and a key
that has its default need not be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import LiteralScalarString

from apps.platform_settings.domain.keys import (
    AGENTS,
    CI_TRUST,
    INSTALLATION,
    OVERRIDES,
    REGISTRIES,
    SECRETS,
    SMTP,
    WORKSPACES,
    Key,
    KeyGroup,
)
from apps.platform_settings.domain.wire import NotMergeable, Version, Wire
from readers.yaml_editor import (
    arrange_entries,
    edit_yaml,
    list_in,
    map_in,
    set_key,
)


def merged_text(text: str, file: Version, new: Version) -> str:
    """Return the file's text with the values of `new`; raise NotMergeable.

    `file` is what the text says now.
    """
    try:
        return edit_yaml(text, lambda root: _merge(root, file, new))
    except (YAMLError, AttributeError, KeyError, IndexError, TypeError) as error:
        raise NotMergeable(f"{type(error).__name__} while it was merged") from error


def _merge(root: CommentedMap, file: Version, new: Version) -> None:
    for key in INSTALLATION.settable:
        if file.meaning[key.name] != new.meaning[key.name]:
            set_key(root, key.name, new.written[key.name])
    for group in (AGENTS, WORKSPACES, REGISTRIES, CI_TRUST):
        _merge_list(root, group, file, new)
    inner = [Version(each.written["secrets"], each.meaning["secrets"]) for each in (file, new)]
    if inner[0].meaning != inner[1].meaning:
        secrets = map_in(root, "secrets")
        _merge_map(secrets, SECRETS, *inner)
        _merge_list(secrets, OVERRIDES, *inner)
    smtp = [
        Version(each.written["notifications"]["smtp"], each.meaning["notifications"]["smtp"])
        for each in (file, new)
    ]
    if not _is_same(SMTP, smtp[0].meaning, smtp[1].meaning):
        _merge_map(map_in(map_in(root, "notifications"), "smtp"), SMTP, *smtp)


def _is_same(group: KeyGroup, old: Wire, new: Wire) -> bool:
    return all(_value(key, old) == _value(key, new) for key in group.settable)


def _value(key: Key, wire: Wire) -> Any:
    return wire.get(key.name, key.default_value)


def _merge_map(data: CommentedMap, group: KeyGroup, file: Version, new: Version) -> None:
    for key in group.settable:
        value = _value(key, new.meaning)
        is_missing = key.name == "type" and not file.meaning  # of a new entry, where it must stand
        if is_missing or _value(key, file.meaning) != value:
            set_key(data, key.name, _node(new.written[key.name]))


def _merge_list(holder: CommentedMap, group: KeyGroup, file: Version, new: Version) -> None:
    name = group.path[-1]
    old_meaning, new_meaning = file.meaning[name], new.meaning[name]
    if old_meaning == new_meaning:
        return
    entries, identity = list_in(holder, name), group.identity
    before = {entry[identity]: entry for entry in old_meaning}
    wanted = [entry[identity] for entry in new_meaning]
    arrange_entries(entries, list(before), wanted)
    for position, entry_id in enumerate(wanted):
        old = before.get(entry_id, {})
        versions = (
            Version(old, old),
            Version(new.written[name][position], new_meaning[position]),
        )
        _merge_map(entries[position], group, *versions)


def _node(value: Any) -> Any:
    if isinstance(value, str):
        return LiteralScalarString(value) if "\n" in value else value
    if isinstance(value, list):
        texts = CommentedSeq(value)
        texts.fa.set_flow_style()
        return texts
    return value if not isinstance(value, Mapping) else CommentedMap(value)
