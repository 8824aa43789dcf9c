"""The forms of the settings pages: their fields, what a browser sends, and where errors stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from kernel.errors import InvalidInput

# `value` is a text that is a secret when it is stored as one
Kind = Literal["text", "long", "flag", "list", "number", "choice", "secret", "secret-long", "value"]
Document = Mapping[str, Any]

MASK: Final = "********"
MAX_ENTRIES: Final = 500
_MAX_DIGITS: Final = 10
_SECRETS: Final = ("secret", "secret-long", "value")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldKind:
    """A key of the settings as people see it."""

    key: str
    label: str
    kind: Kind = "text"
    hint: str = ""
    options: tuple[tuple[str, str], ...] = ()
    suggestions: tuple[str, ...] = ()
    required: bool = False
    usual: str = ""  # what the platform fills in
    types: tuple[str, ...] = ()  # of the entries that have this key; empty: every entry

    def is_for(self, entry_type: str) -> bool:
        return not self.types or entry_type in self.types


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Fields of one object, or of each entry of a list; `path` leads there in the document."""

    path: tuple[str, ...]
    title: str
    noun: str = ""  # of one entry; empty: this is no list
    identity: str = ""
    fields: tuple[FieldKind, ...]
    empty: str = ""  # what the page says of an empty list
    type_key: str = ""  # the field that decides which other ones an entry has

    @property
    def prefix(self) -> str:
        return "-".join(self.path) or "top"

    @property
    def pointer(self) -> str:
        return "".join(f"/{part}" for part in self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundField:
    """A field with its value and its error. `is_set`: a secret is stored, which is not shown."""

    kind: FieldKind
    name: str
    value: Any = ""
    error: str = ""
    is_set: bool = False
    is_cleared: bool = False
    is_idle: bool = False  # another type than that of the entry has it

    @property
    def is_secret(self) -> bool:
        return self.is_set or self.kind.kind in ("secret", "secret-long")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundEntry:
    """The fields of one object; `told` is what the platform knows of it."""

    index: int
    identity: str
    fields: tuple[BoundField, ...]
    error: str = ""
    is_first: bool = True
    is_last: bool = True
    told: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_faulty(self) -> bool:
        return bool(self.error) or any(each.error for each in self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundGroup:
    group: Group
    entries: tuple[BoundEntry, ...]
    error: str = ""


def read_group(group: Group, posted: Mapping[str, str]) -> Any:
    """Return what a browser sent for a group: an object, or a list of them; raise InvalidInput."""
    if not group.noun:
        return _read_entry(group, group.prefix, posted)
    count = _number(posted.get(f"{group.prefix}-count", ""))
    if not isinstance(count, int) or count > MAX_ENTRIES:
        raise InvalidInput(f"the form must have at most {MAX_ENTRIES} entries, and say how many")
    return [_read_entry(group, f"{group.prefix}-{index}", posted) for index in range(count)]


def apply_entry_action(entries: Sequence[Any], action: str) -> list[Any]:
    """Return the entries after `add`, `remove-2`, `up-2` or `down-2`; others change nothing."""
    verb, _, at = action.partition("-")
    made = list(entries)
    if verb == "add":
        return [*made, {}]
    index = _number(at)
    if not isinstance(index, int) or index >= len(made):
        return made
    if verb == "remove":
        del made[index]
    elif verb in ("up", "down"):
        other = index - 1 if verb == "up" else index + 1
        if 0 <= other < len(made):
            made[index], made[other] = made[other], made[index]
    return made


def bind_group(
    group: Group, values: Any, stored: Document, errors: Mapping[str, str] | None = None
) -> BoundGroup:
    """Return a group with values and errors; `errors` are sentences by JSON pointer."""
    faults, kept = errors or {}, _at(stored, group.path)
    if not group.noun:
        entry = _bind_entry(group, (0, values), kept or {}, (group.prefix, group.pointer), faults)
        return BoundGroup(group=group, entries=(entry,))
    known = {each.get(group.identity): each for each in kept or []}
    entries = [
        _bind_entry(
            group,
            (index, value),
            known.get(value.get(group.identity), {}),
            (f"{group.prefix}-{index}", f"{group.pointer}/{index}"),
            faults,
            last=len(values) - 1,
        )
        for index, value in enumerate(values)
    ]
    return BoundGroup(group=group, entries=tuple(entries), error=faults.get(group.pointer, ""))


def with_values(document: Document, groups: Iterable[tuple[Group, Any]]) -> dict[str, Any]:
    """Return the document with the values of these groups in their places, as a copy."""
    made = dict(document)
    for group, values in groups:
        _put(made, group.path, values)
    return made


def _put(made: dict[str, Any], path: tuple[str, ...], values: Any) -> None:
    if not path:
        made.update(values)
    elif len(path) == 1 and not isinstance(values, dict):
        made[path[0]] = values
    else:
        inner = dict(made.get(path[0]) or {})
        _put(inner, path[1:], values)
        made[path[0]] = inner


def _at(document: Document, path: tuple[str, ...]) -> Any:
    found: Any = document
    for part in path:
        found = (found or {}).get(part)
    return found


def _read_entry(group: Group, prefix: str, posted: Mapping[str, str]) -> dict[str, Any]:
    return {each.key: _read(each, f"{prefix}-{each.key}", posted) for each in group.fields}


def _read(kind: FieldKind, name: str, posted: Mapping[str, str]) -> Any:
    if kind.kind in _SECRETS:
        return _read_secret(name, posted)
    text = posted.get(name, "")
    if kind.kind == "flag":
        return name in posted
    if kind.kind == "list":
        return [each.strip() for each in text.split(",") if each.strip()]
    return _number(text) if kind.kind == "number" else text


def _read_secret(name: str, posted: Mapping[str, str]) -> str:
    """An empty text keeps a stored secret, unless it is to be cleared."""
    if f"{name}-clear" in posted:
        return ""
    return posted.get(name, "") or (MASK if f"{name}-set" in posted else "")


def _number(text: str) -> int | str | None:
    is_whole = text.isascii() and text.isdigit() and len(text) < _MAX_DIGITS
    return int(text) if is_whole else text or None


def _bind_entry(
    group: Group,
    numbered: tuple[int, Mapping[str, Any]],
    stored: Mapping[str, Any],
    place: tuple[str, str],
    errors: Mapping[str, str],
    *,
    last: int = 0,
) -> BoundEntry:
    (index, values), (prefix, pointer) = numbered, place
    return BoundEntry(
        index=index,
        identity=str(values.get(group.identity) or ""),
        fields=tuple(_bind_fields(group, values, stored, prefix, pointer, errors)),
        error=errors.get(pointer, "") if group.noun else "",
        is_first=index == 0,
        is_last=index == last,
        told=stored,
    )


def _bind_fields(
    group: Group,
    values: Mapping[str, Any],
    stored: Mapping[str, Any],
    prefix: str,
    pointer: str,
    errors: Mapping[str, str],
) -> Iterator[BoundField]:
    types = next((each for each in group.fields if each.key == group.type_key), None)
    entry_type = values.get(group.type_key) or (types.options[0][0] if types else "")
    for kind in group.fields:
        default = kind.options[0][0] if kind.options else ""
        value = values.get(kind.key, default if kind.kind == "choice" else "")
        if kind.kind == "flag" and not values:
            value = kind.key == "enabled"  # of a new entry
        is_secret = kind.kind in _SECRETS
        error = _in_words(kind, errors.get(f"{pointer}/{kind.key}", ""))
        is_set = is_secret and stored.get(kind.key) == MASK
        yield BoundField(
            kind=_with_value(kind, value),
            name=f"{prefix}-{kind.key}",
            value="" if is_secret and value == MASK else _field_text(kind, value),
            error=error,
            is_set=is_set,
            is_cleared=is_set and value == "",
            is_idle=not (
                error or is_set or value not in ("", None, kind.usual) or kind.is_for(entry_type)
            ),
        )


def _in_words(kind: FieldKind, error: str) -> str:
    """Return an error with the label of the field in the place of its key."""
    rest = error.removeprefix(f"{kind.key} ")
    return error if rest == error else f"{kind.label} {rest}"


def _with_value(kind: FieldKind, value: Any) -> FieldKind:
    """Return the field with a stored value among its choices, also one that is offered no more."""
    if kind.kind != "choice" or not value or value in dict(kind.options):
        return kind
    return replace(kind, options=(*kind.options, (str(value), str(value))))


def _field_text(kind: FieldKind, value: Any) -> Any:
    if kind.kind == "list":
        return ", ".join(value or [])
    return "" if value is None else value
