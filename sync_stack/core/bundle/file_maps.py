"""Tracked files of a rule: one path, or a map between paths and environments."""

from __future__ import annotations

import re
from typing import Any, Final

from readers.tree import Kind
from sync_stack.core.bundle.diagnostics import Diagnostics, LocatedValue
from sync_stack.core.bundle.model import FileEnvironment
from sync_stack.core.bundle.values import ENVIRONMENT, INVALID, expect, glob

KNOWN_EXTENSIONS: Final = frozenset(
    {"yaml", "yml", "json", "jsonc", "json5", "toml", "ini", "cfg", "conf", "config"}
    | {"env", "properties", "xml", "tf", "hcl", "tfvars"}
)
_KNOWN_NAMES: Final = re.compile(r"\.env(?:\..+|rc)?")
_ENVIRONMENT: Final = re.compile(ENVIRONMENT.pattern)
_READINGS: Final = "the names are neither all paths nor all environments"


def relative_path(text: str) -> str:
    """A path inside a repository, perhaps with wildcards. Raises BadGlob, ValueError."""
    parts = text.split("/")
    if not text or text.startswith("/") or ".." in parts or "" in parts or "." in parts:
        raise ValueError(f'"{text[:60]}" is no path inside a repository')
    if "\\" in text or not text.isprintable():
        raise ValueError(f'"{text[:60]}" holds a back-slash or a control character')
    return text


def one_file(text: str) -> str:
    """A path without wildcards. Raises ValueError."""
    if "*" in text or "?" in text:
        raise ValueError("file_name is one path; patterns belong in file_path_map")
    return relative_path(text)


def read_file_map(spot: LocatedValue, findings: Diagnostics) -> Any:
    """Paths or globs with their environments, in order; INVALID after an error."""
    if spot.kind is Kind.LIST:
        return _from_list(spot, findings)
    if not expect(spot, findings, "a map, or a list of {path, env}", Kind.MAP, Kind.LIST):
        return INVALID
    members = list(spot.members())
    if not members:
        findings.error(spot, "out_of_range", "expected at least one file")
        return INVALID
    texts = [expect(member, findings, "text", Kind.STRING) for _name, member in members]
    if not all(texts):
        return INVALID
    return _from_map(spot, members, findings)


def _from_map(
    spot: LocatedValue, members: list[tuple[str, LocatedValue]], findings: Diagnostics
) -> Any:
    names, values = [name for name, _ in members], [member.text for _, member in members]
    by_path = all(map(looks_like_path, names)) and all(map(looks_like_environment, values))
    by_env = all(map(looks_like_environment, names)) and all(map(looks_like_path, values))
    if by_path is by_env:
        why = "path → env and env → path both fit" if by_path else _READINGS
        message = f"{why}: write a list of {{path, env}}"
        findings.error(spot, "ambiguous_file_map", message)
        return INVALID
    made = [
        _entry(name, member.text, member, findings)
        if by_path
        else _entry(member.text, name, member, findings, by_env=True)
        for name, member in members
    ]
    return INVALID if INVALID in made else tuple(made)


def _from_list(spot: LocatedValue, findings: Diagnostics) -> Any:
    if not spot.tree.items:
        findings.error(spot, "out_of_range", "expected at least one file")
        return INVALID
    made = [_from_item(item, findings) for item in spot.items()]
    return INVALID if INVALID in made else tuple(made)


def _from_item(item: LocatedValue, findings: Diagnostics) -> Any:
    if not expect(item, findings, "a map {path, env}", Kind.MAP):
        return INVALID
    path, env = item.member("path"), item.member("env")
    if not path or not env or len(item.tree.pairs) != len(("path", "env")):
        findings.error(item, "missing_field", "expected exactly {path, env}")
        return INVALID
    if (
        not expect(path, findings, "text", Kind.STRING)
        or ENVIRONMENT.read(env, findings) is INVALID
    ):
        return INVALID
    return _entry(path.text, env.text, path, findings)


def _entry(
    path: str, env: str, spot: LocatedValue, findings: Diagnostics, *, by_env: bool = False
) -> Any:
    try:
        return FileEnvironment(path=glob(relative_path(path)), env=env, by_env=by_env)
    except ValueError as error:
        findings.error(spot, "bad_glob", str(error))
        return INVALID


def looks_like_path(text: str) -> bool:
    name = text.rpartition("/")[2]
    known = name.rpartition(".")[2].lower() in KNOWN_EXTENSIONS and "." in name
    return "/" in text or "*" in text or known or bool(_KNOWN_NAMES.fullmatch(name))


def looks_like_environment(text: str) -> bool:
    return bool(_ENVIRONMENT.fullmatch(text))
