"""The difference of two settings documents, with masked values, as people and the audit read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from apps.platform_settings.domain.addresses import hide_user
from apps.platform_settings.domain.keys import GROUPS, MASK, key_named
from apps.platform_settings.domain.wire import Wire, secret_texts

MAX_CHANGES: Final = 500
_MAX_TEXT: Final = 200
_NOTHING: Final = frozenset({"", "false"})  # of an entry that is new or gone
_LISTS: Final = {group.dotted: group.identity for group in GROUPS if group.is_list}


@dataclass(frozen=True, slots=True)
class Change:
    """A key such as `agents[edge].hostUrl`; an empty value stands for none."""

    key: str
    old: str
    new: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def changes_between(old: Wire, new: Wire) -> list[Change]:
    """Return what differs, in the order of the new document; what is gone comes last."""
    before, after = dict(_below("", old)), dict(_below("", new))
    hidden = {secret.identity for wire in (old, new) for secret in secret_texts(wire)}
    keys = [*after, *(key for key in before if key not in after)]
    found = [
        Change(key, _display(before.get(key), key, hidden), _display(after.get(key), key, hidden))
        for key in keys
        if before.get(key, "") != after.get(key, "")
        and not {before.get(key, ""), after.get(key, "")} <= _NOTHING
    ]
    return (found + list(_moves(old, new)))[:MAX_CHANGES]


def _display(value: str | None, key: str, hidden: set[str]) -> str:
    if not value:
        return ""
    if key in hidden:
        return MASK
    declared = key_named(key)
    value = hide_user(value) if declared and declared.address else value
    return value if len(value) <= _MAX_TEXT else f"{value[: _MAX_TEXT - 1]}…"


def _below(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _below(f"{path}.{key}" if path else key, inner)
    elif path in _LISTS:
        for entry in value:
            yield from _below(f"{path}[{entry[_LISTS[path]]}]", entry)
    else:
        yield path, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(value) if isinstance(value, list) else str(value)


def _moves(old: Wire, new: Wire) -> Iterator[Change]:
    for path, key in _LISTS.items():
        before, after = (_ids(wire, path, key) for wire in (old, new))
        kept = [each for each in before if each in after]
        now = [each for each in after if each in before]
        if kept != now:
            yield Change(f"{path} (order)", ", ".join(kept), ", ".join(now))


def _ids(wire: Wire, path: str, key: str) -> Sequence[str]:
    value: Any = wire
    for part in path.split("."):
        value = value[part]
    return [str(entry[key]) for entry in value]
