"""What somebody wants to store as a profile, and the rules for it (reference: control-plane 10)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from apps.profiles.domain.profile_file import EXTENSIONS, free_id, read_profile
from apps.profiles.domain.profiles import Profile, ProfileInvalid, SecretRef, chain_of
from apps.profiles.domain.records import MAX_RECORDS, ProfileSet, Record
from apps.profiles.domain.yaml_text import NotEditable, with_key
from kernel.errors import FieldError, InvalidInput, PlatformError
from kernel.ids import is_env_name, slug
from readers import Unreadable
from readers.yaml import Node, read_yaml

MAX_YAML_BYTES: Final = 256 * 1024
MAX_SECRET_REFS: Final = 200
_MAX_LENGTH: Final = {"name": 200, "fileName": 120, "description": 2000, "scope": 100}
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
_BUILT_INS: Final = (
    r"EXECUTION_ID|SUITE_ID|SOURCE_SUITE_ID|PROFILE|STEP_ID|STEP_NAME|STEP_KIND|ATTEMPT"
    r"|WORKSPACE_DIR|STEP_DIR|ARTIFACTS_DIR|MOCK_BASE_URL|MOCK_[A-Z0-9_]+_URL"
)


class ProfileDuplicate(PlatformError):
    """Another profile of the suite has this file name."""

    code = "profile_duplicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The body of a write; None where the YAML decides, for `launchable` the scope."""

    name: str
    file_name: str
    yaml: str
    description: str = ""
    scope: str = ""
    secret_refs: tuple[Mapping[str, str], ...] = ()
    default: bool | None = None
    extends_id: str | None = None
    launchable: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRules:
    """What other parts of the platform decide.

    `reference_problem(provider, ref)` says why a reference cannot work, or "".
    """

    env_prefixes: Sequence[str]
    reference_problem: Callable[[str, str], str]

    def is_built_in(self, name: str) -> bool:
        """Return whether steps have this variable anyway (reference: control-plane 13.2)."""
        prefixes = "|".join(map(re.escape, self.env_prefixes))
        pattern = rf"(?:{prefixes})_(?:{_BUILT_INS})\Z"
        return name == "TRACEPARENT" or bool(prefixes and re.match(pattern, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDraft:
    record: Record
    is_default: bool


def check_draft(
    draft: Draft, current: ProfileSet, rules: DraftRules, *, profile_id: str = ""
) -> CheckedDraft:
    """Check a draft and return the record that it makes, new without `profile_id`.

    Raise InvalidInput with a place for each fault, ProfileDuplicate.
    """
    own_id = profile_id or _new_id(draft, current)
    faults = faults_of(draft, rules)
    if not profile_id and len(current.stored.records) >= MAX_RECORDS:
        detail = f"a suite has at most {MAX_RECORDS} stored profiles"
        faults.append(FieldError(pointer="", code="invalid_value", detail=detail))
    read = read_profile(draft.yaml, path=draft.file_name, taken=set())
    extends_id = read.extends_id if draft.extends_id is None else draft.extends_id
    if fault := _fault_of_chain(current, own_id, draft.file_name, extends_id):
        faults.append(fault)
    if faults:
        raise invalid_draft(faults)
    _refuse_duplicate(draft, current, own_id)
    references = {each.key: each for each in read.secret_refs}
    references |= {each["key"]: SecretRef(**each) for each in draft.secret_refs}
    is_default = read.default if draft.default is None else draft.default
    launchable = is_launchable(draft, is_default=is_default)
    if is_default and not launchable:
        detail = "the default profile must be launchable"
        raise invalid_draft([FieldError(pointer="/default", code="invalid_value", detail=detail)])
    record = Record(
        profile_id=own_id,
        name=draft.name.strip(),
        file_name=draft.file_name,
        description=draft.description.strip(),
        scope=draft.scope.strip(),
        yaml=in_agreement(draft.yaml, read, extends_id=extends_id, is_default=is_default),
        secret_refs=tuple(references.values()),
        extends_id=extends_id,
        launchable=launchable,
    )
    return CheckedDraft(record=record, is_default=is_default)


def is_launchable(draft: Draft, *, is_default: bool) -> bool:
    """Return whether the draft's profile may be launched: as given, otherwise as for a file."""
    if draft.launchable is not None:
        return draft.launchable
    scope = draft.scope.strip()
    as_file = Profile(profile_id="", file_name=draft.file_name, label="", given_scope=scope)
    return is_default or as_file.launchable


def faults_of(draft: Draft, rules: DraftRules) -> list[FieldError]:
    """Return what is wrong with a draft in itself, whatever other profiles there are."""
    return [*_faults_of_fields(draft), *_faults_of_yaml(draft, rules)]


def in_agreement(text: str, read: Profile, *, extends_id: str, is_default: bool) -> str:
    """Return YAML whose `default` and `extendsId` are these, comments kept; raise InvalidInput."""
    try:
        if read.default != is_default:
            text = with_key(text, "default", is_default)
        if read.extends_id != extends_id:
            text = with_key(text, "extendsId", extends_id or None)
    except NotEditable as error:
        fault = FieldError(pointer="/yaml", code="invalid_value", detail=str(error))
        raise invalid_draft([fault]) from None
    return text


def invalid_draft(faults: Sequence[FieldError]) -> InvalidInput:
    """Return the error of a draft with faults; its text says the first one."""
    first = faults[0]
    place = first.pointer.removeprefix("/") or "the profile"
    if first.line is not None:
        place = f"{first.file}:{first.line}:{first.column}"
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return InvalidInput(f"{place} {first.detail}{more}", errors=faults)


def _new_id(draft: Draft, current: ProfileSet) -> str:
    """Return the id of a new profile; that of a tombstone is free again."""
    taken = {each.profile_id for each in current.profiles}
    taken |= {each.profile_id for each in current.stored.records if not each.is_tombstone}
    return free_id(slug(PurePosixPath(draft.file_name).stem) or "profile", taken)


def _faults_of_fields(draft: Draft) -> Iterator[FieldError]:
    texts = {
        "name": draft.name,
        "fileName": draft.file_name,
        "description": draft.description,
        "scope": draft.scope,
    }
    for key, text in texts.items():
        if len(text) > _MAX_LENGTH[key]:
            yield _fault(key, f"has at most {_MAX_LENGTH[key]} characters")
        elif _CONTROL.search(text.replace("\n", "") if key == "description" else text):
            yield _fault(key, "contains a control character")
    if not draft.name.strip():
        yield _fault("name", "is required", code="required")
    yield from _faults_of_file_name(draft.file_name)


def _faults_of_file_name(name: str) -> Iterator[FieldError]:
    if not name.strip():
        yield _fault("fileName", "is required", code="required")
    elif not name.lower().endswith(EXTENSIONS):
        yield _fault("fileName", "must end in .yaml or .yml", code="invalid_extension")
    elif "/" in name or "\\" in name or name != name.strip() or name.startswith("."):
        yield _fault("fileName", "must be a plain file name without a folder")


def _faults_of_yaml(draft: Draft, rules: DraftRules) -> Iterator[FieldError]:
    text = draft.yaml
    if not text.strip():
        yield _fault("yaml", "is required", code="required")
        return
    if len(text.encode()) > MAX_YAML_BYTES:
        yield _fault("yaml", f"has at most {MAX_YAML_BYTES} bytes")
        return
    problem = read_profile(text, path=draft.file_name, taken=set()).problem
    if problem is not None:
        yield replace(problem, pointer="/yaml", file=draft.file_name)
        return
    root = read_yaml(text)
    if root.pairs is None:
        yield _field_error(draft, root.unreadable("a profile must be a mapping"))
        return
    yield from _faults_of_variables(draft, root, rules)
    yield from _faults_of_references(draft, root, rules)


def _faults_of_variables(draft: Draft, root: Node, rules: DraftRules) -> Iterator[FieldError]:
    services = root.get("services")
    for holder in (root, *(own for _, own in (services and services.pairs) or ())):
        env = holder.get("env")
        for name, _ in (env and env.pairs) or ():
            if rules.is_built_in(name.text or ""):
                yield _field_error(draft, name.unreadable(f"{name.text} is set by the platform"))


def _faults_of_references(draft: Draft, root: Node, rules: DraftRules) -> Iterator[FieldError]:
    listed = root.get("secretRefs")
    for item in (listed and listed.items) or ():
        given = {name.text or "": value.text or "" for name, value in item.pairs or ()}
        for key, detail in _reference_faults(given, rules):
            place = item.get(key) or item
            yield _field_error(draft, place.unreadable(detail))
    if len(draft.secret_refs) > MAX_SECRET_REFS:
        yield _fault("secretRefs", f"has at most {MAX_SECRET_REFS} entries")
    for index, given_ref in enumerate(draft.secret_refs[:MAX_SECRET_REFS]):
        for key, detail in _reference_faults(given_ref, rules):
            yield _fault(f"secretRefs/{index}/{key}", detail)


def _reference_faults(given: Mapping[str, str], rules: DraftRules) -> Iterator[tuple[str, str]]:
    for key in ("key", "provider", "ref"):
        if not given.get(key, "").strip():
            yield key, "is required"
    name = given.get("key", "")
    if name and not is_env_name(name):
        yield "key", f'"{name[:80]}" is not a valid name for an environment variable'
    elif rules.is_built_in(name):
        yield "key", f"{name} is set by the platform"
    if given.get("provider") and given.get("ref"):
        problem = rules.reference_problem(given["provider"], given["ref"])
        if problem:
            yield "ref" if "path" in problem else "provider", problem


def _fault_of_chain(
    current: ProfileSet, own_id: str, file_name: str, extends_id: str
) -> FieldError | None:
    if not extends_id:
        return None
    if extends_id == own_id:
        return _fault("extendsId", "a profile cannot extend itself")
    others = [each for each in current.profiles if each.profile_id != own_id]
    if all(each.profile_id != extends_id for each in others):
        return _fault("extendsId", f'"{extends_id[:80]}" is not a profile of this suite')
    own = Profile(profile_id=own_id, file_name=file_name, label="", extends_id=extends_id)
    try:
        chain_of([*(replace(each, problem=None) for each in others), own], own)
    except ProfileInvalid as error:
        return _fault("extendsId", error.errors[0].detail)
    return None


def _refuse_duplicate(draft: Draft, current: ProfileSet, own_id: str) -> None:
    for each in current.profiles:
        same = each.file_name.casefold() == draft.file_name.casefold()
        if same and each.profile_id != own_id:
            detail = f"the suite has a profile {each.file_name} already"
            fault = FieldError(pointer="/fileName", code="duplicate", detail=detail)
            raise ProfileDuplicate(detail, errors=[fault])


def _field_error(draft: Draft, error: Unreadable) -> FieldError:
    return FieldError(
        pointer="/yaml",
        code="invalid_value",
        detail=error.reason,
        file=draft.file_name,
        line=error.line,
        column=error.column,
    )


def _fault(key: str, detail: str, *, code: str = "invalid_value") -> FieldError:
    return FieldError(pointer=f"/{key}", code=code, detail=detail)
