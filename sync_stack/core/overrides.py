"""`partita.json`: the fields of a rule that its repository may override.

The caller reads the file at the head of the default branch, whoever pushes where.
(reference: sync-stack 4.9)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from readers import Unreadable
from readers.json import read_json
from sync_stack.core.bundle.file_maps import FileEnvironment
from sync_stack.core.bundle.rules import Prune, Rule, SyncMode, Variable, VariableForm

FILE_NAME: Final = "partita.json"
MAX_BYTES: Final = 64 * 1024
MAX_ENTRIES: Final = 1000
_ENVIRONMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_FORMS: Final = ("from", "literal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overridden:
    """The rule that counts. `ignored`: fields without effect; `warning`: for the task."""

    rule: Rule
    ignored: tuple[str, ...] = ()
    warning: str = ""


def apply_overrides(rule: Rule, content: bytes | None) -> Overridden:
    """Return the rule with the overrides of the repository's file, None when there is no file.

    A file with an error has no effect but the warning. Validation and the guards of prune can only
    become stricter.
    """
    if content is None:
        return Overridden(rule=rule)
    try:
        given = _read(content)
        allowed = {name: value for name, value in given.items() if _is_allowed(rule, name)}
        merged, ignored = _merged(rule, allowed)
    except (Unreadable, WrongType) as error:
        return Overridden(rule=rule, warning=f"{FILE_NAME} is not used: {error}")
    return Overridden(rule=merged, ignored=tuple(sorted({*ignored, *(given.keys() - allowed)})))


class WrongType(ValueError):
    """A member that is not what it must be; the message names it and shows no value."""


def boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise WrongType(f"{name} is true or false")
    return value


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise WrongType(f"{name} is a text")
    return value


def path(name: str, value: Any) -> str:
    """A path inside the repository: relative, no `..`, no back-slash, no control characters."""
    given = text(name, value)
    segments = given.split("/")
    if not given.isprintable() or "\\" in given or {"", ".", ".."} & set(segments):
        raise WrongType(f"{name} names a path inside the repository, without `..`")
    return given


def environment(name: str, value: Any) -> str:
    if not isinstance(value, str) or not _ENVIRONMENT.fullmatch(value):
        raise WrongType(f"{name} names environments of letters, digits, `.`, `_` and `-`")
    return value


def environments(name: str, value: Any) -> dict[str, str]:
    """A map of non-empty text to environments."""
    return {key: environment(name, env) for key, env in _map(name, value).items()}


def variables(name: str, value: Any) -> dict[str, tuple[str, str]]:
    """Name → (`auto`, `from` or `literal`, text)."""
    return {key: _variable(name, entry) for key, entry in _map(name, value).items()}


def _variable(name: str, value: Any) -> tuple[str, str]:
    if isinstance(value, str):
        return "auto", value
    if isinstance(value, dict) and len(value) == 1:
        ((form, content),) = value.items()
        if form in _FORMS and isinstance(content, str):
            return form, content
    raise WrongType(f"{name} has texts, {{from: key}} or {{literal: text}}")


def prune_fields(name: str, value: Any) -> dict[str, Any]:
    """The members of `prune`; a bare boolean is `enabled`."""
    given: dict[str, Any] = {"enabled": value} if isinstance(value, bool) else _map(name, value)
    if "enabled" in given:
        boolean(f"{name}.enabled", given["enabled"])
    globs = given.get("protection", [])
    if not isinstance(globs, list) or not all(isinstance(glob, str) and glob for glob in globs):
        raise WrongType(f"{name}.protection is a list of texts")
    ratio = given.get("max_delete_ratio", 0)
    if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or not 0 <= ratio <= 1:
        raise WrongType(f"{name}.max_delete_ratio is a number from 0 to 1")
    return given | ({"max_delete_ratio": float(ratio)} if "max_delete_ratio" in given else {})


def _map(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or "" in value or len(value) > MAX_ENTRIES:
        raise WrongType(f"{name} is a map of at most {MAX_ENTRIES} entries")
    return dict(value)


def _read(content: bytes) -> dict[str, Any]:
    given = read_json(content.removeprefix(b"\xef\xbb\xbf"), max_bytes=MAX_BYTES)
    if not isinstance(given, dict):
        raise WrongType("it is no JSON object")
    return given


def _is_allowed(rule: Rule, name: str) -> bool:
    if name not in _FIELDS:
        return False
    if isinstance(rule.allow_overrides, bool):
        return rule.allow_overrides
    return name in rule.allow_overrides


def _merged(rule: Rule, given: Mapping[str, Any]) -> tuple[Rule, list[str]]:
    if "file_name" in given and "file_path_map" in given:
        raise WrongType("file_name and file_path_map exclude each other")
    ignored: list[str] = []
    for name in _FIELDS:  # prune last: turned off, it also ends LIVE_STATE
        if name in given:
            rule, dropped = _FIELDS[name](rule, given[name])
            ignored.extend(dropped)
    return rule, ignored


_Merge = Callable[[Rule, Any], tuple[Rule, list[str]]]


def _set(name: str, read: Callable[[str, Any], Any]) -> _Merge:
    def merge(rule: Rule, value: Any) -> tuple[Rule, list[str]]:
        return replace(rule, **{name: read(name, value)}), []

    return merge


def _only_true(name: str) -> _Merge:
    """A switch that may be turned on, never off."""

    def merge(rule: Rule, value: Any) -> tuple[Rule, list[str]]:
        wanted = boolean(name, value)
        weaker = bool(getattr(rule, name)) and not wanted
        change: dict[str, Any] = {name: getattr(rule, name) or wanted}
        return replace(rule, **change), [name] if weaker else []

    return merge


def _file_name(rule: Rule, value: Any) -> tuple[Rule, list[str]]:
    return replace(rule, file_name=path("file_name", value), file_path_map=()), []


def _file_path_map(rule: Rule, value: Any) -> tuple[Rule, list[str]]:
    pairs = environments("file_path_map", value).items()
    entries = tuple(
        FileEnvironment(path=path("file_path_map", name), env=env) for name, env in pairs
    )
    return replace(rule, file_path_map=entries, file_name=""), []


def _variables_map(rule: Rule, value: Any) -> tuple[Rule, list[str]]:
    made = {
        name: Variable(text=content, form=VariableForm(form))
        for name, (form, content) in variables("variables_map", value).items()
    }
    return replace(rule, variables_map=made), []


def _sync_mode(rule: Rule, value: Any) -> tuple[Rule, list[str]]:
    """LIVE_STATE implies prune: only for a rule that prunes already."""
    wanted = text("sync_mode", value).upper().removeprefix("SYNC_MODE_")
    if wanted not in SyncMode.__members__:
        raise WrongType(f"sync_mode is one of {', '.join(SyncMode)}")
    mode = SyncMode[wanted]
    prunes = rule.prune.enabled or rule.sync_mode is SyncMode.LIVE_STATE
    if mode is SyncMode.LIVE_STATE and not prunes:
        return rule, ["sync_mode"]
    return replace(rule, sync_mode=mode), []


def _prune(rule: Rule, value: Any) -> tuple[Rule, list[str]]:
    given = prune_fields("prune", value)
    own = rule.prune
    ratio = given.get("max_delete_ratio", own.max_delete_ratio)
    prunes = own.enabled or rule.sync_mode is SyncMode.LIVE_STATE
    stricter = Prune(
        enabled=own.enabled and given.get("enabled", True),
        dry_run=own.dry_run,
        protection=tuple(dict.fromkeys((*own.protection, *given.get("protection", ())))),
        max_delete_ratio=min(ratio, own.max_delete_ratio),
        max_delete_floor=own.max_delete_floor,
        allow_empty=own.allow_empty,
    )
    ignored = [f"prune.{name}" for name in given if name not in _STRICTER]
    if given.get("enabled") and not prunes:
        ignored.append("prune.enabled")
    if ratio > own.max_delete_ratio:
        ignored.append("prune.max_delete_ratio")
    mode = rule.sync_mode
    if given.get("enabled") is False and mode is SyncMode.LIVE_STATE:
        mode = SyncMode.GIT_SMART_REPAIR  # the same without prune
    return replace(rule, prune=stricter, sync_mode=mode), ignored


_STRICTER: Final = ("enabled", "protection", "max_delete_ratio")
_FIELDS: Final[Mapping[str, _Merge]] = {
    "branch_map": _set("branch_map", environments),
    "env_as_branch": _set("env_as_branch", boolean),
    "env_as_pr": _set("env_as_pr", boolean),
    "env_as_tags": _set("env_as_tags", boolean),
    "file_name": _file_name,
    "file_path_map": _file_path_map,
    "root_key": _set("root_key", text),
    "variables_map": _variables_map,
    "strict_validation": _only_true("strict_validation"),
    "dry_run": _only_true("dry_run"),
    "sync_mode": _sync_mode,
    "prune": _prune,
}
