"""Tracked files of a rule: one path, or a map between paths and environments."""

from __future__ import annotations

import re
from dataclasses import dataclass

from readers.tree import Kind
from sync_stack.core.bundle.diagnostics import LocatedValue
from sync_stack.core.bundle.values import ENVIRONMENT, ENVIRONMENT_PATTERN, expect, glob, read_all
from sync_stack.core.formats import by_name


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEnvironment:
    """A path or glob of tracked files, and the environment that they are for.

    `by_env`: the map is from environments to files, so a file is for its environment only. From
    paths to environments, a branch that names an environment takes every file.
    """

    path: str
    env: str
    by_env: bool = False


def relative_path(text: str) -> str:
    """Return a path inside a repository, perhaps with wildcards; raise ValueError."""
    parts = text.split("/")
    if not text or text.startswith("/") or ".." in parts or "" in parts or "." in parts:
        raise ValueError(f'"{text[:60]}" is not a path inside a repository')
    if "\\" in text or not text.isprintable():
        raise ValueError(f'"{text[:60]}" holds a back-slash or a control character')
    return text


def one_file(text: str) -> str:
    """Return a path without wildcards; raise ValueError."""
    if "*" in text or "?" in text:
        raise ValueError("file_name is one path; patterns belong in file_path_map")
    return relative_path(text)


def read_file_map(located: LocatedValue) -> tuple[FileEnvironment, ...]:
    """Return paths or globs with their environments, in order."""
    expect(located, "a map, or a list of {path, env}", Kind.MAP, Kind.LIST)
    if not located.tree.items and not located.tree.pairs:
        raise located.error("out_of_range", "expected at least one file")
    if located.kind is Kind.LIST:
        return tuple(read_all(_read_item, located.items()))
    names = list(located.tree.pairs)
    values = read_all(_read_text, (each for _name, each in located.members()))
    by_path = all(map(looks_like_path, names)) and all(map(looks_like_environment, values))
    by_env = all(map(looks_like_environment, names)) and all(map(looks_like_path, values))
    if by_path is by_env:
        both = "path → env and env → path both fit"
        why = both if by_path else "the names are neither all paths nor all environments"
        message = f"{why}: write a list of {{path, env}}"
        raise located.error("ambiguous_file_map", message)

    def read(member: LocatedValue) -> FileEnvironment:
        name = str(member.path[-1])
        return _entry(member, *((name, member.text) if by_path else (member.text, name)), by_env)

    return tuple(read_all(read, (each for _name, each in located.members())))


def _read_item(item: LocatedValue) -> FileEnvironment:
    expect(item, "a map {path, env}", Kind.MAP)
    if set(item.tree.pairs) != {"path", "env"}:
        raise item.error("missing_field", "expected exactly {path, env}")
    path = item.at("path")
    return _entry(path, _read_text(path), ENVIRONMENT.read(item.at("env")))


def _read_text(located: LocatedValue) -> str:
    return expect(located, "text", Kind.STRING)


def _entry(located: LocatedValue, path: str, env: str, by_env: bool = False) -> FileEnvironment:  # noqa: FBT001, FBT002
    try:
        return FileEnvironment(path=glob(relative_path(path)), env=env, by_env=by_env)
    except ValueError as error:
        raise located.error("bad_glob", str(error)) from None


def looks_like_path(text: str) -> bool:
    return "/" in text or "*" in text or by_name(text) is not None


def looks_like_environment(text: str) -> bool:
    return bool(re.fullmatch(ENVIRONMENT_PATTERN, text))
