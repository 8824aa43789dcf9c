"""What a suite imports: dependencies.yaml, its lock, and the rules that pin a reference.

(reference: control-plane 8)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NotRequired, TypedDict

from apps.suites.domain.package import Package
from apps.suites.domain.problems import TopologyProblem
from kernel.errors import FileWarning, known_names
from kernel.ids import is_env_name
from readers import Unreadable
from readers.diagnostics import nearest_advice
from readers.yaml import Node, read_yaml

FILES: Final = ("dependencies.yaml", "dependencies.yml")
LOCK_FILES: Final = ("dependencies.lock.yaml", "dependencies.lock.yml")
LATEST: Final = "latest"
MODULE_LABEL: Final = re.compile(r"^@([A-Za-z0-9._-]+)/([A-Za-z0-9._-]+)\Z")
_ENTRY_KEYS: Final = ("ref", "version", "profile", "inputs")
_LOCK_KEYS: Final = (*_ENTRY_KEYS, "resolved", "digest")
_SHA256: Final = "sha256:"
_DIGEST_LENGTH: Final = len(_SHA256) + 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteReference:
    """A reference to a suite: its id or repository, with a tag, a digest, or neither."""

    repository: str
    tag: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredDependency:
    """An entry of dependencies.yaml or of its lock; `resolved` and `digest` are set in locks only.

    `inputs` become env of every imported node.
    """

    ref: str = ""
    version: str = ""
    profile: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    resolved: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """The entries and locks of a suite by alias; `problem` is the first error of the files.

    `modules` are the pinned modules by label, each `repository@sha256:…`.
    """

    entries: Mapping[str, DeclaredDependency] = field(default_factory=dict)
    locks: Mapping[str, DeclaredDependency] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[FileWarning, ...] = ()
    problem: TopologyProblem | None = None


class _OptionalMembers(TypedDict):
    version: NotRequired[str]
    digest: NotRequired[str]
    profile: NotRequired[str]
    inputs: NotRequired[dict[str, str]]


class DependencyDocument(_OptionalMembers):
    """An imported suite; `locked` when dependencies.lock.yaml has an entry for it."""

    alias: str
    ref: str
    resolved: str
    suiteId: str
    suiteTitle: str
    repository: str
    locked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """The suite that an entry and its lock ask for.

    `version` and `digest` are "" where any will do; `profile` is "" for the default one.
    """

    alias: str
    ref: str
    repository: str
    version: str
    digest: str
    profile: str
    inputs: Mapping[str, str]
    resolved: str
    locked: bool


def dependencies_of(package: Package) -> Dependencies:
    """Return what a package imports; an unreadable file becomes the `problem`."""
    warnings: list[FileWarning] = []
    found: dict[str, dict[str, DeclaredDependency]] = {}
    modules: dict[str, str] = {}
    for section, names, keys in (
        ("dependencies", FILES, _ENTRY_KEYS),
        ("locks", LOCK_FILES, _LOCK_KEYS),
    ):
        path = package.first_of(*names)
        if path is None:
            continue
        try:
            root, reader = read_yaml(package.text(path)), _FileReader(path, warnings)
            found[section] = reader.entries(root, section, keys)
            if section == "locks":
                modules = reader.modules(root)
        except Unreadable as error:
            problem = TopologyProblem(
                "package_invalid", error.reason, file=path, line=error.line, column=error.column
            )
            return Dependencies(problem=problem)
    entries, locks = found.get("dependencies", {}), found.get("locks", {})
    warnings += _warn_outdated(entries, locks, package.first_of(*LOCK_FILES) or "")
    return Dependencies(entries=entries, locks=locks, modules=modules, warnings=tuple(warnings))


def pin_of(dependencies: Dependencies, alias: str) -> Pin:
    """Return what an alias asks for.

    Raise TopologyProblem `dependency_missing`, `latest_refused`, `version_mismatch` or
    `digest_mismatch`.
    """
    entry = dependencies.entries.get(alias)
    if entry is None:
        known = known_names(dependencies.entries)
        raise TopologyProblem(
            "dependency_missing", f'dependencies.yaml has no entry "{alias}"{known}'
        )
    lock = lock_of(dependencies, alias)
    named = split_reference(entry.ref)
    _refuse_latest(named.tag, entry.version, lock.version, split_reference(lock.resolved).tag)
    if named.tag and entry.version and named.tag != entry.version:
        raise TopologyProblem(
            "version_mismatch",
            f'the tag of "{entry.ref}" is not the version {entry.version} of its entry',
        )
    version = entry.version or named.tag or lock.version
    digest = named.digest or lock.digest or split_reference(lock.resolved).digest
    if named.digest and lock.digest and named.digest != lock.digest:
        raise TopologyProblem(
            "digest_mismatch", f'the lock has {lock.digest}, but the ref is "{entry.ref}"'
        )
    return Pin(
        alias=alias,
        ref=entry.ref,
        repository=named.repository,
        version=version,
        digest=digest,
        profile=entry.profile or lock.profile,
        inputs={**lock.inputs, **entry.inputs},
        resolved=lock.resolved or _complete(entry.ref, named, version, digest),
        locked=lock is not _NO_LOCK,
    )


def lock_of(dependencies: Dependencies, alias: str) -> DeclaredDependency:
    """Return the lock of an alias, an empty one if there is none or its `ref` is another one."""
    lock = dependencies.locks.get(alias, _NO_LOCK)
    entry = dependencies.entries[alias]
    return _NO_LOCK if lock.ref and lock.ref != entry.ref else lock


def split_reference(text: str) -> SuiteReference:
    """Split `repository[:tag][@sha256:…]`; a colon before the last slash is of a port."""
    named, _, digest = text.partition("@")
    folder, slash, last = named.rpartition("/")
    name, _, tag = last.partition(":")
    return SuiteReference(repository=f"{folder}{slash}{name}", tag=tag, digest=digest)


_NO_LOCK: Final = DeclaredDependency()


def _refuse_latest(*versions: str) -> None:
    if LATEST in versions:
        raise TopologyProblem(
            "latest_refused", '"latest" can change at any time; name a version or a digest'
        )


def _complete(ref: str, named: SuiteReference, version: str, digest: str) -> str:
    if digest:
        return f"{named.repository}@{digest}"
    return f"{named.repository}:{version}" if version else ref


def _warn_outdated(
    entries: Mapping[str, DeclaredDependency], locks: Mapping[str, DeclaredDependency], path: str
) -> list[FileWarning]:
    """Return a warning for each lock that is not used: its entry has another ref, or is gone."""
    found = []
    for alias, lock in locks.items():
        entry = entries.get(alias)
        if entry is None:
            detail = f'dependencies.yaml has no entry "{alias}"; its lock is not used'
        elif lock.ref and lock.ref != entry.ref:
            detail = f'the lock of "{alias}" is for {lock.ref}, not {entry.ref}, and is not used'
        else:
            continue
        found.append(FileWarning(code="lock_outdated", detail=detail, file=path))
    return found


class _FileReader:
    """Reads the entries of one file; raises Unreadable with the place of an invalid value."""

    def __init__(self, path: str, warnings: list[FileWarning]) -> None:
        self.path = path
        self.warnings = warnings

    def entries(
        self, root: Node, section: str, keys: tuple[str, ...]
    ) -> dict[str, DeclaredDependency]:
        if root.is_null:
            return {}
        self._mapping(root, "the file")
        self._warn_of_unknown(root, (section, "modules"), "")
        listed = root.get(section)
        if listed is None or listed.is_null:
            return {}
        self._mapping(listed, section)
        return {
            alias.text or "": self._entry(alias, value, keys) for alias, value in listed.pairs or []
        }

    def modules(self, root: Node) -> dict[str, str]:
        """Return the pinned modules of a lock by label."""
        listed = None if root.is_null else root.get("modules")
        if listed is None or listed.is_null:
            return {}
        self._mapping(listed, "modules")
        return {
            label.text or "": self._read_pin(label, value) for label, value in listed.pairs or []
        }

    def _read_pin(self, label: Node, value: Node) -> str:
        match = MODULE_LABEL.match(label.text or "")
        if match is None:
            raise label.unreadable(f'"{label.text}" is not a label such as "@scope/module"')
        named = split_reference(value.text or "")
        if value.is_null or named.tag or not _is_digest(named.digest):
            raise value.unreadable(f"{label.text} must be repository@sha256: and 64 hex digits")
        if not f"/{named.repository}".endswith(f"/{match[1]}/{match[2]}"):
            raise value.unreadable(
                f"{label.text} must be pinned to a repository that ends in {match[1]}/{match[2]}"
            )
        return value.text or ""

    def _entry(self, alias: Node, value: Node, keys: tuple[str, ...]) -> DeclaredDependency:
        locks = "resolved" in keys
        if value.text is not None and not value.is_null:
            return (
                DeclaredDependency(resolved=value.text) if locks else self._check(value, value.text)
            )
        self._mapping(value, f"{alias.text}")
        self._warn_of_unknown(value, keys, f"{alias.text}.")
        texts = {key: self._text(value, key) for key in keys if key != "inputs"}
        entry = DeclaredDependency(**texts, inputs=self._inputs(value))
        if entry.digest and not _is_digest(entry.digest):
            raise value.unreadable(f"{alias.text}.digest must be sha256: and 64 hex digits")
        return entry if locks else replace(entry, ref=self._check(value, entry.ref).ref)

    def _check(self, place: Node, ref: str) -> DeclaredDependency:
        if not ref:
            raise place.unreadable("a dependency requires ref")
        named = split_reference(ref)
        if not named.repository or (named.digest and not _is_digest(named.digest)):
            raise place.unreadable(f'"{ref}" is not a reference: use a suite id or a repository, '
                                   "with :tag or @sha256:…")  # fmt: skip
        return DeclaredDependency(ref=ref)

    def _inputs(self, value: Node) -> dict[str, str]:
        listed = value.get("inputs")
        if listed is None or listed.is_null:
            return {}
        self._mapping(listed, "inputs")
        for name, item in listed.pairs or []:
            if not is_env_name(name.text or ""):
                raise name.unreadable(f'"{name.text}" is not a valid name for an input')
            if item.text is None or item.is_null or "\0" in item.text:
                raise item.unreadable(f"the input {name.text} must be a string")
        return {name.text or "": item.text or "" for name, item in listed.pairs or []}

    def _text(self, value: Node, key: str) -> str:
        found = value.get(key)
        if found is None or found.is_null:
            return ""
        if found.text is None:
            raise found.unreadable(f"{key} must be a string")
        return found.text

    def _mapping(self, value: Node, name: str) -> None:
        if value.pairs is None:
            raise value.unreadable(f"{name} must be a mapping")

    def _warn_of_unknown(self, value: Node, known: tuple[str, ...], where: str) -> None:
        for key, _ in value.pairs or []:
            if key.text not in known:
                advice = nearest_advice(key.text or "", known)
                detail = f'"{where}{key.text}" is not a key of this file and is ignored; {advice}'
                self.warnings.append(
                    FileWarning(code="unknown_key", detail=detail, file=self.path, line=key.line)
                )


def _is_digest(text: str) -> bool:
    hex_digits = text.removeprefix(_SHA256)
    return len(text) == _DIGEST_LENGTH and not hex_digits.strip("0123456789abcdef")
