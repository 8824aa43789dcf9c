"""Stored profiles, and the profiles of a suite that come of its files and its records.

A record replaces the file with its id. A tombstone keeps a file away until its content changes.
(reference: control-plane 10)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NotRequired, TypedDict

from apps.profiles.domain.profile_file import Seed, in_order, read_profile
from apps.profiles.domain.profiles import (
    Profile,
    SecretRef,
    SecretRefDocument,
    default_profile,
)
from kernel.errors import FieldError, FieldErrorDocument
from kernel.wire_types import Instant

MAX_RECORDS: Final = 200  # of one suite
_SECRET_NAME: Final = re.compile(
    r"(PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|PRIVATE_?KEY|CREDENTIALS?)$", re.IGNORECASE
)
_SECRET_VALUE: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}"
    r"|\bglpat-[A-Za-z0-9_-]{20}|\bxox[abprs]-[A-Za-z0-9-]{10}"
)
_SHORTEST_SECRET: Final = 6  # characters; "app" of a throwaway database is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A stored profile; a tombstone has only `profile_id` and `seed_sha256`.

    `secret_refs` are all of the profile. `updated_in` is the workspace that the author worked in.
    """

    profile_id: str
    name: str = ""
    file_name: str = ""
    description: str = ""
    scope: str = ""
    yaml: str = ""
    secret_refs: tuple[SecretRef, ...] = ()
    extends_id: str = ""
    launchable: bool = True
    updated_at: str = ""
    updated_by: str = ""
    updated_in: str = ""
    seed_sha256: str = ""

    @property
    def is_tombstone(self) -> bool:
        return bool(self.seed_sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProfiles:
    """What is stored of one suite: its records and tombstones, and the chosen default.

    `revision` is new after each change.
    """

    revision: str = ""
    default_id: str = ""
    records: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSet:
    """The profiles of a suite in list order, the default first; `texts` is their YAML by id."""

    profiles: tuple[Profile, ...]
    texts: Mapping[str, str]
    seeds: Mapping[str, Seed] = field(default_factory=dict)
    stored: StoredProfiles = field(default_factory=StoredProfiles)

    @property
    def default(self) -> Profile | None:
        return default_profile(self.profiles)

    def find(self, named: str) -> Profile | None:
        """Find a profile by id, else by file name."""
        by_id = (each for each in self.profiles if each.profile_id == named)
        by_file = (each for each in self.profiles if each.file_name == named)
        return next(by_id, None) or next(by_file, None)

    def record(self, profile_id: str) -> Record | None:
        """Return the stored record, None for a profile that is only a file."""
        own = (each for each in self.stored.records if each.profile_id == profile_id)
        return next((each for each in own if not each.is_tombstone), None)

    def dependants(self, profile_id: str) -> list[Profile]:
        """Return the profiles that extend it directly."""
        return [each for each in self.profiles if each.extends_id == profile_id]


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def profile_set(seeds: Sequence[Seed], stored: StoredProfiles) -> ProfileSet:
    """Join the files of a suite with its records; exactly one launchable profile is the default."""
    by_id = {seed.profile.profile_id: seed for seed in seeds}
    records = {each.profile_id: each for each in stored.records}
    texts = dict[str, str]()
    found: list[Profile] = []
    for profile_id, seed in by_id.items():
        if _is_shown(seed, records.get(profile_id)):
            found.append(replace(seed.profile, may_launch=seed.profile.launchable))
            texts[profile_id] = seed.text
    for record in stored.records:
        if not record.is_tombstone:
            found.append(profile_of(record))
            texts[record.profile_id] = record.yaml
    flagged = _with_one_default(found, stored.default_id)
    return ProfileSet(profiles=in_order(flagged), texts=texts, seeds=by_id, stored=stored)


def _is_shown(seed: Seed, record: Record | None) -> bool:
    return record is None or (record.is_tombstone and record.seed_sha256 != sha256_of(seed.text))


def _with_one_default(profiles: Sequence[Profile], chosen_id: str) -> list[Profile]:
    """Flag the chosen profile, else the first flagged file, else the first, in order of names."""
    named = sorted(profiles, key=lambda profile: profile.file_name)
    chosen = next((each for each in named if each.profile_id == chosen_id), None)
    if chosen is None or not chosen.launchable:
        chosen = default_profile(named)
    return [replace(each, default=each is chosen) for each in profiles]


def profile_of(record: Record) -> Profile:
    """Return the profile of a record, whose own fields win over those in its YAML."""
    read = read_profile(record.yaml, path=record.file_name, taken=set())
    return replace(
        read,
        profile_id=record.profile_id,
        label=record.name,
        description=record.description or read.description,
        default=False,
        extends_id=record.extends_id,
        secret_refs=record.secret_refs,
        given_scope=record.scope,
        may_launch=record.launchable,
        managed=True,
    )


class ProfileRecordDocument(TypedDict):
    """A profile of a suite. `updatedAt` and `updatedBy` are those of stored profiles.

    `problem` is why the profile cannot be used.
    """

    id: str
    name: str
    fileName: str
    description: NotRequired[str]
    scope: str
    yaml: str
    secretRefs: list[SecretRefDocument]
    default: bool
    extendsId: NotRequired[str]
    launchable: bool
    source: Literal["workspace", "managed"]
    updatedAt: NotRequired[Instant]
    updatedBy: NotRequired[str]
    problem: NotRequired[FieldErrorDocument]


def record_document(one: ProfileSet, profile: Profile) -> ProfileRecordDocument:
    """Return the Record on the wire, without its author."""
    record = one.record(profile.profile_id)
    shown: ProfileRecordDocument = {
        "id": profile.profile_id,
        "name": profile.label,
        "fileName": profile.file_name,
        "description": profile.description,
        "scope": profile.scope,
        "yaml": one.texts[profile.profile_id],
        "secretRefs": [each.as_dict() for each in profile.secret_refs],
        "default": profile.default,
        "extendsId": profile.extends_id,
        "launchable": profile.launchable,
        "source": "managed" if record else "workspace",
        "updatedAt": record.updated_at if record else "",
    }
    if not shown["description"]:
        del shown["description"]
    if not shown["extendsId"]:
        del shown["extendsId"]
    if not shown["updatedAt"]:
        del shown["updatedAt"]
    if profile.problem:
        shown["problem"] = profile.problem.as_dict()
    return shown


def warnings_of(profile: Profile) -> Iterator[FieldError]:
    """Yield what is valid but probably wrong: keys without effect, secrets in plain text."""
    yield from profile.warnings
    places = {"env": profile.env}
    places |= {f"services.{step}.env": env for step, env in profile.services.items()}
    for where, env in places.items():
        for name, value in env.items():
            if value and looks_secret(name, value):
                detail = (
                    f"{where}.{name} looks like a secret in plain text, which everyone can read "
                    "here; use secretRefs"
                )
                yield FieldError(code="plain_secret", detail=detail, file=profile.path)


def looks_secret(name: str, value: str) -> bool:
    """Return whether a variable's name or value is that of a secret."""
    named = len(value) >= _SHORTEST_SECRET and _SECRET_NAME.search(name)
    return bool(named or _SECRET_VALUE.search(value))
