"""`partita.json`: what a repository may say about its own rule (contract 4.9); pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kernel.reading.tree import Kind, Tree
from sync_stack.core.bundle.model import (
    FileEnvironment,
    Prune,
    Rule,
    SyncMode,
    Variable,
    VariableForm,
)

FILE_NAME: Final = "partita.json"
MAX_BYTES: Final = 65_536
_ENVIRONMENT_LENGTH: Final = 63


class BadOverrides(ValueError):
    """The file says something that no rule can take; then the central rule counts as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overridden:
    """The rule with what it allows; `ignored` names what it does not."""

    rule: Rule
    ignored: tuple[str, ...] = ()


def apply_overrides(rule: Rule, document: Tree) -> Overridden:
    """Raises BadOverrides. Validation and prune guards only ever become stricter."""
    if document.kind is not Kind.MAP:
        raise BadOverrides("expected an object")
    fields: dict[str, Any] = {}
    ignored = []
    for name, value in document.pairs.items():
        reader = _READERS.get(name)
        if reader is None or not _allows(rule, name):
            ignored.append(name)
            continue
        fields |= _read(reader, rule, name, value)
    if "file_name" in fields and "file_path_map" in fields:
        raise BadOverrides("file_name and file_path_map exclude each other")
    return Overridden(rule=replace(rule, **fields), ignored=tuple(sorted(ignored)))


def _allows(rule: Rule, name: str) -> bool:
    allowed = rule.allow_overrides
    return allowed if isinstance(allowed, bool) else name in allowed


def _read(reader: Reader, rule: Rule, name: str, value: Tree) -> dict[str, Any]:
    try:
        return reader(rule, value)
    except BadOverrides as error:
        raise BadOverrides(f"{name}: {error}") from None


def _text(value: Tree) -> str:
    if value.kind is not Kind.STRING:
        raise BadOverrides("expected text")
    return value.text


def _flag(value: Tree) -> bool:
    if value.kind is not Kind.BOOL:
        raise BadOverrides("expected true or false")
    return value.text == "true"


def _path(value: Tree) -> str:
    text = _text(value)
    parts = text.split("/")
    if "\\" in text or not text.isprintable() or any(part in ("", ".", "..") for part in parts):
        raise BadOverrides("expected a path inside the repository")
    return text


def _environment(value: Tree) -> str:
    text = _text(value)
    safe = text.replace(".", "").replace("_", "").replace("-", "")
    fits = safe.isascii() and safe.isalnum() and text[:1].isalnum() and ".." not in text
    if not fits or len(text) > _ENVIRONMENT_LENGTH:
        raise BadOverrides(f"{text[:60]!r} is no environment")
    return text


def _members(value: Tree) -> Mapping[str, Tree]:
    if value.kind is not Kind.MAP:
        raise BadOverrides("expected an object")
    return value.pairs


def _branch_map(_rule: Rule, value: Tree) -> dict[str, Any]:
    return {"branch_map": {name: _environment(env) for name, env in _members(value).items()}}


def _file_name(_rule: Rule, value: Tree) -> dict[str, Any]:
    return {"file_name": _path(value), "file_path_map": ()}


def _file_path_map(_rule: Rule, value: Tree) -> dict[str, Any]:
    """Path → environment."""
    made = []
    for path, env in _members(value).items():
        _path(replace(value, kind=Kind.STRING, text=path, pairs={}))
        made.append(FileEnvironment(path=path, env=_environment(env)))
    return {"file_path_map": tuple(made), "file_name": ""}


def _variables_map(_rule: Rule, value: Tree) -> dict[str, Any]:
    return {"variables_map": {name: _variable(each) for name, each in _members(value).items()}}


def _variable(value: Tree) -> Variable:
    if value.kind is Kind.STRING:
        return Variable(text=value.text)
    pairs = _members(value)
    if len(pairs) != 1 or next(iter(pairs)) not in ("from", "literal"):
        raise BadOverrides("expected text, {from} or {literal}")
    form, text = next(iter(pairs.items()))
    return Variable(text=_text(text), form=VariableForm(form))


def _sync_mode(_rule: Rule, value: Tree) -> dict[str, Any]:
    name = _text(value).upper().removeprefix("SYNC_MODE_")
    known = {"FULL": SyncMode.GIT_UPSERT_ALL} | {mode.value: mode for mode in SyncMode}
    if name not in known:
        raise BadOverrides(f"expected one of {', '.join(SyncMode)}")
    return {"sync_mode": known[name]}


def _prune(rule: Rule, value: Tree) -> dict[str, Any]:
    """Off, more protection, a lower ratio; what would be laxer stays as it is."""
    if value.kind is Kind.BOOL:
        return {"prune": replace(rule.prune, enabled=rule.prune.enabled and _flag(value))}
    pairs = _members(value)
    known = {"enabled", "protection", "max_delete_ratio"}
    if unknown := pairs.keys() - known:
        raise BadOverrides(f"{min(unknown)} is not for repositories")
    return {"prune": _stricter(rule.prune, pairs)}


def _stricter(prune: Prune, pairs: Mapping[str, Tree]) -> Prune:
    enabled = prune.enabled and ("enabled" not in pairs or _flag(pairs["enabled"]))
    protection = prune.protection
    if "protection" in pairs:
        if pairs["protection"].kind is not Kind.LIST:
            raise BadOverrides("protection: expected a list")
        protection += tuple(_text(item) for item in pairs["protection"].items)
    ratio = prune.max_delete_ratio
    if "max_delete_ratio" in pairs:
        ratio = min(ratio, _ratio(pairs["max_delete_ratio"]))
    return replace(prune, enabled=enabled, protection=protection, max_delete_ratio=ratio)


def _ratio(value: Tree) -> float:
    try:
        ratio = float(value.text)
    except ValueError:
        ratio = -1.0
    if value.kind is not Kind.NUMBER or not 0 <= ratio <= 1:
        raise BadOverrides("max_delete_ratio: expected 0 to 1")
    return ratio


def _stays(name: str) -> Reader:
    """A flag that a repository may set and never clear."""
    return lambda rule, value: {name: getattr(rule, name) or _flag(value)}


def _chosen(name: str) -> Reader:
    return lambda _rule, value: {name: _flag(value)}


Reader = Callable[[Rule, Tree], dict[str, Any]]
_READERS: Final[dict[str, Reader]] = {
    "branch_map": _branch_map,
    "env_as_branch": _chosen("env_as_branch"),
    "env_as_pr": _chosen("env_as_pr"),
    "env_as_tags": _chosen("env_as_tags"),
    "file_name": _file_name,
    "file_path_map": _file_path_map,
    "root_key": lambda _rule, value: {"root_key": _text(value)},
    "sync_mode": _sync_mode,
    "variables_map": _variables_map,
    "strict_validation": _stays("strict_validation"),
    "dry_run": _stays("dry_run"),
    "prune": _prune,
}
