"""Writes of profiles: each is one unit of work on the profiles of one suite.

Two writers of a suite cannot both go by the same state: the row of the suite has a revision, and a
write that finds another one is repeated on the new state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from apps.accounts.api import Forbidden, Principal, Role, has_several_workspaces
from apps.profiles import conf
from apps.profiles.domain.drafts import Draft, ProfileDuplicate, check_draft, in_agreement
from apps.profiles.domain.profile_file import Seed, read_profile
from apps.profiles.domain.profiles import Profile
from apps.profiles.domain.records import (
    ProfileSet,
    Record,
    StoredProfiles,
    profile_set,
    sha256_of,
)
from apps.profiles.selectors import stored_profiles_of
from apps.profiles.services.profiles_file import take_over_file, write_profiles_file
from apps.profiles.services.rows import save
from apps.streams.api import unit_of_work
from kernel import clock
from kernel.errors import FieldError, InvalidInput, NotFound, PlatformError, known_names
from kernel.ids import new_uuid

_SHOWN_NAMES: Final = 5


class ProfileNotFound(NotFound):
    code = "profile_not_found"


class ProfileInUse(PlatformError):
    """Other profiles extend it."""

    code = "profile_in_use"


class ProfileNotLaunchable(PlatformError):
    """A profile that is only a base for others cannot be the default."""

    code = "profile_not_launchable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Who changes the profiles of which suite, whose files are `seeds`.

    `precondition` sees the state that the change goes by, inside its transaction.
    """

    principal: Principal
    suite_id: str
    seeds: Sequence[Seed]
    precondition: Callable[[ProfileSet], None] = lambda _current: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The profiles after a change of the one with this id."""

    profile_id: str
    profiles: ProfileSet


def require_writer(principal: Principal) -> None:
    """Raise Forbidden for who may not change profiles (PROFILE_WRITES).

    Profiles hold for every workspace: where there are several, members of one do not decide what
    the others launch, unless the setting says so.
    """
    writers = conf.profile_writers()
    for_administrators = writers == "admin" or (not writers and has_several_workspaces())
    if for_administrators and not principal.is_admin:
        raise Forbidden(
            "only administrators of the installation may change profiles here: "
            "profiles apply to every workspace"
        )
    principal.require(Role.RUNNER)


def may_write(principal: Principal) -> bool:
    try:
        require_writer(principal)
    except Forbidden:
        return False
    return True


def create_profile(edit: Edit, draft: Draft) -> Written:
    """Store a new profile.

    Raise Forbidden, what the precondition raises, InvalidInput, ProfileDuplicate.
    """
    return _write_with_file(_create, edit, draft)


def replace_profile(edit: Edit, profile_id: str, draft: Draft) -> Written:
    """Replace a profile, whose id stays; as `create_profile`, and raise ProfileNotFound."""
    return _write_with_file(_replace, edit, profile_id, draft)


def delete_profile(edit: Edit, profile_id: str) -> Written:
    """Delete a profile; that of a file stays away until its file changes.

    Raise Forbidden, ProfileNotFound, what the precondition raises, ProfileInUse.
    """
    return _write_with_file(_delete, edit, profile_id)


def make_default(edit: Edit, profile_id: str) -> Written:
    """Make a profile the default of its suite.

    Raise Forbidden, ProfileNotFound, what the precondition raises, ProfileNotLaunchable.
    """
    return _write_with_file(_make_default, edit, profile_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a write would do: the faults that would stop it, else the profiles after it."""

    faults: tuple[FieldError, ...] = ()
    written: Written | None = None


def preview_profile(edit: Edit, draft: Draft, profile_id: str = "") -> Preview:
    """Check a draft, new without `profile_id`, and store nothing."""
    current = _current(edit)
    found = current.find(profile_id)
    own_id = found.profile_id if found else profile_id
    try:
        made = check_draft(draft, current, conf.draft_rules(), profile_id=own_id)
    except (InvalidInput, ProfileDuplicate) as error:
        return Preview(faults=error.errors)
    records = _records(current) | {made.record.profile_id: made.record}
    stored = current.stored
    default_id = made.record.profile_id if made.is_default else stored.default_id
    after = replace(stored, default_id=default_id, records=tuple(records.values()))
    profiles = profile_set(edit.seeds, after)
    return Preview(written=Written(profile_id=made.record.profile_id, profiles=profiles))


def require_profile(current: ProfileSet, named: str) -> Profile:
    """Return the profile of this id or file name; raise ProfileNotFound."""
    profile = current.find(named)
    if profile is None:
        known = known_names(each.file_name for each in current.profiles)
        raise ProfileNotFound(f"the suite has no profile {named[:128]!r}{known}")
    return profile


def _write_with_file(write: Callable[..., Written], edit: Edit, *more: object) -> Written:
    """Write a record, and the profiles file after it; raise Forbidden."""
    require_writer(edit.principal)
    take_over_file()
    written = write(edit, *more)
    write_profiles_file()
    return written


@unit_of_work
def _create(edit: Edit, draft: Draft) -> Written:
    current = _current(edit)
    edit.precondition(current)
    made = check_draft(draft, current, conf.draft_rules())
    return _put(edit, current, made.record, is_default=made.is_default)


@unit_of_work
def _replace(edit: Edit, profile_id: str, draft: Draft) -> Written:
    current = _current(edit)
    profile_id = require_profile(current, profile_id).profile_id
    edit.precondition(current)
    made = check_draft(draft, current, conf.draft_rules(), profile_id=profile_id)
    return _put(edit, current, made.record, is_default=made.is_default)


@unit_of_work
def _delete(edit: Edit, profile_id: str) -> Written:
    current = _current(edit)
    profile_id = require_profile(current, profile_id).profile_id
    edit.precondition(current)
    if users := current.dependants(profile_id):
        names = ", ".join(each.file_name for each in users[:_SHOWN_NAMES])
        verb, them = ("extends", "it") if len(users) == 1 else ("extend", "them")
        raise ProfileInUse(f"{names} {verb} this profile; change or delete {them} first")
    records = _records(current)
    records.pop(profile_id, None)
    if seed := current.seeds.get(profile_id):
        records[profile_id] = Record(profile_id=profile_id, seed_sha256=sha256_of(seed.text))
    stored = current.stored
    default_id = "" if stored.default_id == profile_id else stored.default_id
    return _store(edit, current, profile_id, records.values(), default_id)


@unit_of_work
def _make_default(edit: Edit, profile_id: str) -> Written:
    current = _current(edit)
    profile = require_profile(current, profile_id)
    profile_id = profile.profile_id
    edit.precondition(current)
    if not profile.launchable:
        raise ProfileNotLaunchable(
            f"{profile.file_name} is not launchable: it is only a base for other profiles"
        )
    record = current.record(profile_id) or _from_seed(current.seeds[profile_id])
    return _put(edit, current, record, is_default=True)


def _current(edit: Edit) -> ProfileSet:
    return profile_set(edit.seeds, stored_profiles_of(edit.suite_id))


def _records(current: ProfileSet) -> dict[str, Record]:
    return {each.profile_id: each for each in current.stored.records}


def _from_seed(seed: Seed) -> Record:
    profile = seed.profile
    return Record(
        profile_id=profile.profile_id,
        name=profile.label,
        file_name=profile.file_name,
        description=profile.description,
        scope=profile.scope,
        yaml=seed.text,
        secret_refs=profile.secret_refs,
        extends_id=profile.extends_id,
        launchable=profile.launchable,
    )


def _put(edit: Edit, current: ProfileSet, record: Record, *, is_default: bool) -> Written:
    """Store a record; a new default clears the flag of the others."""
    default_id = current.stored.default_id
    if is_default:
        default_id = record.profile_id
    elif default_id == record.profile_id:
        default_id = ""
    records = _records(current) | {record.profile_id: record}
    return _store(edit, current, record.profile_id, records.values(), default_id)


def _store(
    edit: Edit, current: ProfileSet, profile_id: str, records: Iterable[Record], default_id: str
) -> Written:
    before = _records(current)
    author = edit.principal
    made: list[Record] = []
    for each in records:
        agreed = (
            each
            if each.is_tombstone
            else _set_default_flag(each, is_default=each.profile_id == default_id)
        )
        if agreed != before.get(each.profile_id):
            agreed = replace(
                agreed,
                updated_at=clock.rfc3339(clock.now()),
                updated_by=author.full_name,
                updated_in=str(author.workspace_id),
            )
        made.append(agreed)
    after = StoredProfiles(revision=str(new_uuid()), default_id=default_id, records=tuple(made))
    save(edit.suite_id, current.stored, after)
    return Written(profile_id=profile_id, profiles=profile_set(edit.seeds, after))


def _set_default_flag(record: Record, *, is_default: bool) -> Record:
    read = read_profile(record.yaml, path=record.file_name, taken=set())
    if read.problem is not None:
        return record
    text = in_agreement(record.yaml, read, extends_id=read.extends_id, is_default=is_default)
    return replace(record, yaml=text)
