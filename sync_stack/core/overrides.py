"""`partita.json`: the fields of a rule that its repository may override.

The caller reads the file at the head of the default branch, whoever pushes where.
(reference: sync-stack 4.9)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from readers import Unreadable
from readers.json import read_json
from sync_stack.core.bundle.file_maps import FileEnvironment
from sync_stack.core.bundle.rules import Rule, SyncMode, Variable, VariableForm
from sync_stack.core.bundle.values import ENVIRONMENT_PATTERN

FILE_NAME: Final = "partita.json"
MAX_BYTES: Final = 64 * 1024
MAX_ENTRIES: Final = 1000
_Name = Annotated[str, Meta(min_length=1)]
_Environment = Annotated[str, Meta(pattern=rf"\A(?:{ENVIRONMENT_PATTERN})\Z")]
_Environments = Annotated[dict[_Name, _Environment], Meta(max_length=MAX_ENTRIES)]
_Form = Annotated[dict[str, str], Meta(min_length=1, max_length=1)]


class PruneOverrides(Struct, frozen=True, kw_only=True):
    """The members of `prune` that may become stricter."""

    enabled: bool = True
    protection: tuple[_Name, ...] = ()
    max_delete_ratio: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET


class RepositoryFile(Struct, frozen=True, kw_only=True):
    """The content of the file; the rule keeps what is not set."""

    branch_map: _Environments | UnsetType = UNSET
    env_as_branch: bool | UnsetType = UNSET
    env_as_pr: bool | UnsetType = UNSET
    env_as_tags: bool | UnsetType = UNSET
    file_name: str | UnsetType = UNSET
    file_path_map: _Environments | UnsetType = UNSET
    root_key: str | UnsetType = UNSET
    variables_map: Annotated[dict[_Name, str | _Form], Meta(max_length=MAX_ENTRIES)] | UnsetType = (
        UNSET
    )
    strict_validation: bool | UnsetType = UNSET
    dry_run: bool | UnsetType = UNSET
    sync_mode: str | UnsetType = UNSET
    prune: bool | Annotated[dict[_Name, Any], Meta(max_length=MAX_ENTRIES)] | UnsetType = UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Overridden:
    """The rule that counts. `ignored`: fields without effect; `warning`: for the task."""

    rule: Rule
    ignored: tuple[str, ...] = ()
    warning: str = ""


class WrongType(ValueError):
    """A member that is not what it must be; the message names it and shows no value."""


def apply_overrides(rule: Rule, content: bytes | None) -> Overridden:
    """Return the rule with the overrides of the repository's file, None when there is no file.

    A file with an error has no effect but the warning. Validation and the guards of prune can only
    become stricter.
    """
    if content is None:
        return Overridden(rule=rule)
    try:
        read = read_json(content.removeprefix(b"\xef\xbb\xbf"), max_bytes=MAX_BYTES)
        given = msgspec.convert(read, dict[str, object])
        allowed = {name: value for name, value in given.items() if _is_allowed(rule, name)}
        merged, ignored = _merge(rule, msgspec.convert(allowed, RepositoryFile))
    except (Unreadable, WrongType, msgspec.ValidationError) as error:
        return Overridden(rule=rule, warning=f"{FILE_NAME} is not used: {error}")
    return Overridden(rule=merged, ignored=tuple(sorted({*ignored, *(given.keys() - allowed)})))


def _is_allowed(rule: Rule, name: str) -> bool:
    if name not in _FIELDS:
        return False
    if isinstance(rule.allow_overrides, bool):
        return rule.allow_overrides
    return name in rule.allow_overrides


def _merge(rule: Rule, file: RepositoryFile) -> tuple[Rule, list[str]]:
    if file.file_name is not UNSET and file.file_path_map is not UNSET:
        raise WrongType("file_name and file_path_map exclude each other")
    ignored: list[str] = []
    for name, merge in _FIELDS.items():  # prune last: turned off, it also ends LIVE_STATE
        value = getattr(file, name)
        if value is not UNSET:
            rule, dropped = merge(rule, value)
            ignored.extend(dropped)
    return rule, ignored


_Merge = Callable[[Rule, Any], tuple[Rule, list[str]]]


def _set(name: str) -> _Merge:
    return lambda rule, value: (replace(rule, **{name: value}), [])


def _only_true(name: str) -> _Merge:
    """Return the merge of a switch that may be turned on, never off."""

    def merge(rule: Rule, wanted: bool) -> tuple[Rule, list[str]]:  # noqa: FBT001
        own: bool = getattr(rule, name)
        changed, _dropped = _set(name)(rule, own or wanted)
        return changed, [name] if own and not wanted else []

    return merge


def _path(name: str, given: str) -> str:
    """Return a path inside the repository: relative, no `..`, back-slash or control character."""
    if not given.isprintable() or "\\" in given or {"", ".", ".."} & set(given.split("/")):
        raise WrongType(f"{name} names a path inside the repository, without `..`")
    return given


def _file_name(rule: Rule, value: str) -> tuple[Rule, list[str]]:
    return replace(rule, file_name=_path("file_name", value), file_path_map=()), []


def _file_path_map(rule: Rule, value: Mapping[str, str]) -> tuple[Rule, list[str]]:
    entries = tuple(
        FileEnvironment(path=_path("file_path_map", name), env=env) for name, env in value.items()
    )
    return replace(rule, file_path_map=entries, file_name=""), []


def _variables_map(
    rule: Rule, value: Mapping[str, str | Mapping[str, str]]
) -> tuple[Rule, list[str]]:
    made = {}
    for name, entry in value.items():
        if isinstance(entry, str):
            made[name] = Variable(text=entry)
            continue
        ((form, text),) = entry.items()
        if form not in (VariableForm.FROM, VariableForm.LITERAL):
            raise WrongType("variables_map has texts, {from: key} or {literal: text}")
        made[name] = Variable(text=text, form=VariableForm(form))
    return replace(rule, variables_map=made), []


def _sync_mode(rule: Rule, value: str) -> tuple[Rule, list[str]]:
    """Return the mode; LIVE_STATE implies prune: only for a rule that prunes already."""
    wanted = value.upper().removeprefix("SYNC_MODE_")
    if wanted not in SyncMode.__members__:
        raise WrongType(f"sync_mode is one of {', '.join(SyncMode)}")
    mode = SyncMode[wanted]
    prunes = rule.prune.enabled or rule.sync_mode is SyncMode.LIVE_STATE
    if mode is SyncMode.LIVE_STATE and not prunes:
        return rule, ["sync_mode"]
    return replace(rule, sync_mode=mode), []


def _prune(rule: Rule, value: bool | Mapping[str, Any]) -> tuple[Rule, list[str]]:  # noqa: FBT001
    given = {"enabled": value} if isinstance(value, bool) else value
    try:
        wanted = msgspec.convert(given, PruneOverrides)
    except msgspec.ValidationError as error:
        raise WrongType(str(error).replace("`$", "`$.prune")) from None
    own = rule.prune
    ratio = own.max_delete_ratio if wanted.max_delete_ratio is UNSET else wanted.max_delete_ratio
    prunes = own.enabled or rule.sync_mode is SyncMode.LIVE_STATE
    stricter = replace(
        own,
        enabled=own.enabled and wanted.enabled,
        protection=tuple(dict.fromkeys((*own.protection, *wanted.protection))),
        max_delete_ratio=min(ratio, own.max_delete_ratio),
    )
    ignored = [f"prune.{name}" for name in given if name not in PruneOverrides.__struct_fields__]
    if given.get("enabled") and not prunes:
        ignored.append("prune.enabled")
    if ratio > own.max_delete_ratio:
        ignored.append("prune.max_delete_ratio")
    mode = rule.sync_mode
    if not wanted.enabled and mode is SyncMode.LIVE_STATE:
        mode = SyncMode.GIT_SMART_REPAIR  # the same without prune
    return replace(rule, prune=stricter, sync_mode=mode), ignored


_FIELDS: Final[Mapping[str, _Merge]] = {
    **{name: _set(name) for name in ("branch_map", "env_as_branch", "env_as_pr", "env_as_tags")},
    "file_name": _file_name,
    "file_path_map": _file_path_map,
    "root_key": _set("root_key"),
    "variables_map": _variables_map,
    "strict_validation": _only_true("strict_validation"),
    "dry_run": _only_true("dry_run"),
    "sync_mode": _sync_mode,
    "prune": _prune,
}
