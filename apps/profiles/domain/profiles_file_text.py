"""The text of svc-profiles.yaml after a change; comments and the order of the rest are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from apps.profiles.domain.records import Record, StoredProfiles
from readers.yaml_editor import arrange_entries, edit_yaml, map_in

HEADER: Final = (
    "# The profiles that are managed in Partita, which rewrites this file after each change.\n"
    "# Changes made here are imported at the next start or the next change there.\n"
)


def update_text(text: str, stored: Mapping[str, StoredProfiles]) -> str:
    """Update the text to these profiles; keep the comments and the order of all that stays.

    The text must be valid.
    """
    return edit_yaml(text if text.strip() else HEADER, lambda root: _update_root(root, stored))


def _update_root(root: CommentedMap, stored: Mapping[str, StoredProfiles]) -> None:
    suites = map_in(root, "suites")
    if not suites and stored:
        suites = root["suites"] = CommentedMap()  # one in braces would stay on a line
    for gone in [key for key in suites if str(key) not in stored or not stored[str(key)].records]:
        del suites[gone]
    for suite_id, one in stored.items():
        if one.records:
            _update_suite(map_in(suites, suite_id), one)


def _update_suite(section: CommentedMap, stored: StoredProfiles) -> None:
    wanted = {
        "profiles": [_entry(each, stored) for each in stored.records if not each.is_tombstone],
        "deleted": [
            {"id": each.profile_id, "sha256": each.seed_sha256}
            for each in stored.records
            if each.is_tombstone
        ],
    }
    for key, entries in wanted.items():
        if entries:
            section[key] = section.get(key) or CommentedSeq()
            _update_entries(section[key], {entry["id"]: entry for entry in entries})
        elif key in section:
            del section[key]


def _update_entries(listed: CommentedSeq, wanted: Mapping[str, Mapping[str, Any]]) -> None:
    ids = [str(entry.get("id")) for entry in listed]
    order = [
        *(each for each in ids if each in wanted),
        *(each for each in wanted if each not in ids),
    ]
    arrange_entries(listed, ids, order)
    for entry, profile_id in zip(listed, order, strict=True):
        _update_entry(entry, wanted[profile_id])


def _update_entry(entry: Any, values: Mapping[str, Any]) -> None:
    for key in [key for key in entry if key not in values]:
        del entry[key]
    for key, value in values.items():
        if key not in entry or entry[key] != value:
            entry[key] = _scalar(value)


def _entry(record: Record, stored: StoredProfiles) -> dict[str, Any]:
    """Return a Record as the file has it."""
    entry = {
        "id": record.profile_id,
        "name": record.name,
        "fileName": record.file_name,
        "description": record.description,
        "scope": record.scope,
        "yaml": record.yaml,
        "secretRefs": [each.as_dict() for each in record.secret_refs],
        "default": record.profile_id == stored.default_id,
        "extendsId": record.extends_id,
        "launchable": record.launchable,
        "updatedAt": record.updated_at,
        "updatedBy": record.updated_by,
        "workspaceId": record.updated_in,
    }
    return {key: value for key, value in entry.items() if value not in ("", [])}


def _scalar(value: Any) -> Any:
    """Return texts of several lines as a block, others in quotes where they look like no text."""
    if not isinstance(value, str):
        return value
    is_block = "\n" in value and all(line.isprintable() for line in value.split("\n"))
    return LiteralScalarString(value) if is_block else DoubleQuotedScalarString(value)
