"""svc-profiles.yaml: the stored profiles as text for people, with their comments.

suites:
  shop:
    profiles:
      - {id: nightly, name: Nightly, fileName: nightly.yaml, yaml: "{extendsId: ci}"}
    deleted:
      - {id: local, sha256: …}          # the content of the file that was deleted
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from apps.profiles.domain.drafts import Draft, DraftRules, faults_of, is_launchable
from apps.profiles.domain.profile_file import read_profile
from apps.profiles.domain.profiles import SecretRef
from apps.profiles.domain.records import Record, StoredProfiles
from kernel import clock
from kernel.errors import FieldError
from kernel.ids import is_identifier
from readers import Unreadable
from readers.yaml import Node, read_yaml

_RECORD_KEYS: Final = frozenset({
    "id", "name", "fileName", "description", "scope", "yaml", "secretRefs", "default", "extendsId",
    "launchable", "source", "updatedAt", "updatedBy", "workspaceId",
})  # fmt: skip
_SHOWN_ERRORS: Final = 20


class ProfilesFileInvalid(Exception):
    """The message begins with the file, line and column of the first error."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        self.errors = tuple(errors[:_SHOWN_ERRORS])
        first = errors[0]
        place = ":".join(str(part) for part in (first.file, first.line, first.column) if part)
        super().__init__(f"{place}: {first.detail}")


def read_profiles_file(text: str, *, file: str, rules: DraftRules) -> dict[str, StoredProfiles]:
    """Return the stored profiles by suite id, without revisions; raise ProfilesFileInvalid."""
    reader = _ProfilesReader(file, rules)
    try:
        found = reader.suites(read_yaml(text))
    except Unreadable as error:
        reader.refuse(error)
        found = {}
    if reader.errors:
        raise ProfilesFileInvalid(reader.errors)
    return found


class _ProfilesReader:
    def __init__(self, file: str, rules: DraftRules) -> None:
        self.file = file
        self.rules = rules
        self.errors: list[FieldError] = []

    def refuse(self, error: Unreadable) -> None:
        self.errors.append(
            FieldError(
                code="invalid_value",
                detail=error.reason,
                file=self.file,
                line=error.line,
                column=error.column,
            )
        )

    def suites(self, root: Node) -> dict[str, StoredProfiles]:
        if root.is_null:
            return {}
        self.refuse_unknown_keys(root, {"suites"})
        found = {}
        listed = root.get("suites")
        for name, node in _pairs(listed) if listed is not None else ():
            if not is_identifier(name.text or ""):
                self.refuse(name.unreadable(f'"{(name.text or "")[:80]}" is not a suite id'))
                continue
            found[name.text or ""] = self.suite(node)
        return found

    def suite(self, node: Node) -> StoredProfiles:
        self.refuse_unknown_keys(node, {"profiles", "deleted"})
        records: list[Record] = []
        default_id = ""
        for item in _items(node, "profiles"):
            record, is_default = self.record(item)
            self.refuse_repeated(item, record, records)
            records.append(record)
            if is_default and default_id:
                place = item.get("default") or item
                self.refuse(place.unreadable("another profile of the suite is the default already"))
            elif is_default:
                default_id = record.profile_id
        records += [self.tombstone(item) for item in _items(node, "deleted")]
        return StoredProfiles(default_id=default_id, records=tuple(records))

    def refuse_repeated(self, item: Node, record: Record, before: Sequence[Record]) -> None:
        for each in before:
            if each.profile_id == record.profile_id:
                self.refuse(item.unreadable(f'the id "{record.profile_id}" occurs twice'))
            elif each.file_name.casefold() == record.file_name.casefold():
                self.refuse(item.unreadable(f'the fileName "{record.file_name}" occurs twice'))

    def record(self, item: Node) -> tuple[Record, bool]:
        self.refuse_unknown_keys(item, _RECORD_KEYS)
        profile_id = self.identifier(item)
        given = tuple(
            {key.text or "": value.text or "" for key, value in _pairs(each)}
            for each in _items(item, "secretRefs")
        )
        for each in _items(item, "secretRefs"):
            self.refuse_unknown_keys(each, {"key", "provider", "ref"})
        draft = Draft(
            name=_text(item, "name"),
            file_name=_text(item, "fileName"),
            yaml=_text(item, "yaml"),
            description=_text(item, "description"),
            scope=_text(item, "scope"),
            secret_refs=given,
            extends_id=_text(item, "extendsId"),
            launchable=_flag(item, "launchable", absent=None),
        )
        self.refuse_faults(item, faults_of(draft, self.rules))
        is_default = bool(_flag(item, "default", absent=False))
        launchable = is_launchable(draft, is_default=is_default)
        if is_default and not launchable:
            self.refuse(item.unreadable("the default profile must be launchable"))
        complete = [each for each in given if each.keys() == {"key", "provider", "ref"}]
        record = Record(
            profile_id=profile_id,
            name=draft.name,
            file_name=draft.file_name,
            description=draft.description,
            scope=draft.scope,
            yaml=draft.yaml,
            secret_refs=_references(draft, complete),
            extends_id=draft.extends_id or "",
            launchable=launchable,
            updated_at=self.time(item),
            updated_by=_text(item, "updatedBy")[:200],
            updated_in=_text(item, "workspaceId")[:36],
        )
        return record, is_default

    def refuse_faults(self, item: Node, faults: Sequence[FieldError]) -> None:
        for fault in faults:
            key = fault.pointer.split("/")[1]
            place = item.get(key) or item
            inside = f"line {fault.line}: " if fault.line else ""
            self.refuse(place.unreadable(f"{key}: {inside}{fault.detail}"))

    def tombstone(self, item: Node) -> Record:
        self.refuse_unknown_keys(item, {"id", "sha256"})
        digest = _text(item, "sha256")
        if not digest or len(digest) > 64:  # noqa: PLR2004 - hexadecimal digits of SHA-256
            self.refuse(item.unreadable("a deleted profile needs the sha256 of its file"))
        now = clock.rfc3339(clock.now())
        return Record(profile_id=self.identifier(item), seed_sha256=digest, updated_at=now)

    def identifier(self, item: Node) -> str:
        found = _text(item, "id")
        if not is_identifier(found):
            place = item.get("id") or item
            self.refuse(place.unreadable(f'"{found[:80]}" is not the id of a profile'))
        return found

    def time(self, item: Node) -> str:
        given = _text(item, "updatedAt")
        try:
            return clock.rfc3339(clock.parse_rfc3339(given) if given else clock.now())
        except ValueError:
            place = item.get("updatedAt") or item
            self.refuse(place.unreadable("updatedAt must be a time such as 2026-01-02T03:04:05Z"))
            return ""

    def refuse_unknown_keys(self, node: Node, known: set[str] | frozenset[str]) -> None:
        """Refuse each key that is not `known`."""
        for key, _ in _pairs(node):
            if (key.text or "") not in known:
                self.refuse(key.unreadable(f'"{(key.text or "")[:80]}" is not a known key'))


def _references(draft: Draft, given: Sequence[Mapping[str, str]]) -> tuple[SecretRef, ...]:
    read = read_profile(draft.yaml, path=draft.file_name, taken=set())
    found = {each.key: each for each in read.secret_refs}
    found |= {each["key"]: SecretRef(**each) for each in given}
    return tuple(found.values())


def _pairs(node: Node) -> list[tuple[Node, Node]]:
    if node.pairs is None:
        raise node.unreadable("expected a mapping")
    return node.pairs


def _items(node: Node, key: str) -> Iterator[Node]:
    listed = node.get(key)
    if listed is None or listed.is_null:
        return
    if listed.items is None:
        raise listed.unreadable(f"{key} must be a list")
    yield from listed.items


def _text(node: Node, key: str) -> str:
    value = node.get(key)
    if value is None or value.is_null:
        return ""
    if value.text is None:
        raise value.unreadable(f"{key} must be a string")
    return value.text


def _flag(node: Node, key: str, *, absent: bool | None) -> bool | None:
    value = node.get(key)
    if value is None or value.is_null:
        return absent
    found = value.scalar()
    if not isinstance(found, bool):
        raise value.unreadable(f"{key} must be true or false")
    return found
