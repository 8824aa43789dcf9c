"""dependencies.lock.yaml: what a new lock would say, and the file (reference: control-plane 8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import yaml

from apps.suites.dependencies.module_pins import new_pins
from apps.suites.dependencies.resolution import PackageUnavailable, Resolver
from apps.suites.domain.definition import Suite
from apps.suites.domain.dependencies import (
    LOCK_FILES,
    DeclaredDependency,
    lock_of,
    pin_of,
    split_reference,
)
from apps.suites.domain.problems import TopologyProblem
from apps.suites.sources.folders import replace_file

_HEAD: Final = "# Written by `partita suite lock`; run it again after a change that you want.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedDependency:
    """An alias under the present lock and under a new one; a digest is "" where there is none.

    `state` is `same`, `added`, `changed` or `removed`.
    """

    alias: str
    ref: str
    suite_id: str
    before: str
    after: str

    @property
    def state(self) -> str:
        if self.before == self.after:
            return "same"
        if not self.before:
            return "added"
        return "changed" if self.after else "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLock:
    """A new lock of a suite: its changes by alias, and the text of the file.

    The `alias` of one of the `modules` is its label, its `ref` a repository.
    """

    path: str
    dependencies: tuple[LockedDependency, ...]
    modules: tuple[LockedDependency, ...] = ()
    text: str
    present: bool

    @property
    def changes(self) -> list[LockedDependency]:
        return [each for each in (*self.dependencies, *self.modules) if each.state != "same"]

    @property
    def is_current(self) -> bool:
        return not self.changes and (self.present or not (self.dependencies or self.modules))


def new_lock(suite: Suite, resolver: Resolver) -> NewLock:
    """Return the lock of the present content of all that a suite imports and loads directly.

    Packages of registries are pinned by the digest of their manifest, others by that of their
    content. An imported suite has a lock of its own for its imports. Raise TopologyProblem at an
    alias that does not resolve or a missing module, and the problem of unreadable files.
    """
    declared = suite.dependencies
    if declared.problem:
        raise declared.problem
    unlocked = replace(declared, locks={})
    found: list[LockedDependency] = []
    locks: dict[str, DeclaredDependency] = {}
    for alias, entry in sorted(declared.entries.items()):
        try:
            pin = pin_of(unlocked, alias)
            imported = resolver.suite(pin, newest=True)
        except PackageUnavailable as problem:
            message = f"{alias}: {problem.message}"
            raise PackageUnavailable(message, unreachable=problem.unreachable) from None
        except TopologyProblem as problem:
            raise TopologyProblem(problem.code, f"{alias}: {problem.message}") from None
        locks[alias] = DeclaredDependency(
            ref=entry.ref,
            version=pin.version,
            resolved=f"{imported.metadata.repository}@{imported.lock_digest}",
            digest=imported.lock_digest,
        )
        found.append(
            LockedDependency(
                alias=alias,
                ref=entry.ref,
                suite_id=imported.suite_id,
                before=lock_of(declared, alias).digest,
                after=imported.lock_digest,
            )
        )
    found += [
        LockedDependency(alias=alias, ref=lock.ref, suite_id="", before=lock.digest, after="")
        for alias, lock in sorted(declared.locks.items())
        if alias not in declared.entries
    ]
    path, pins = suite.package.first_of(*LOCK_FILES), new_pins(suite)
    return NewLock(
        path=path or LOCK_FILES[0],
        dependencies=tuple(found),
        modules=tuple(_locked_modules(declared.modules, pins)),
        text=_text(locks, pins),
        present=path is not None,
    )


def write_lock(folder: Path, lock: NewLock) -> None:
    """Write the file whole or not at all; raise OSError."""
    replace_file(folder / lock.path, lock.text)


def _locked_modules(
    present: Mapping[str, str], pins: Mapping[str, str]
) -> Iterator[LockedDependency]:
    for label in sorted({*present, *pins}):
        before, after = (split_reference(found.get(label, "")) for found in (present, pins))
        yield LockedDependency(
            alias=label,
            ref=after.repository or before.repository,
            suite_id="",
            before=before.digest,
            after=after.digest,
        )


def _text(locks: Mapping[str, DeclaredDependency], pins: Mapping[str, str]) -> str:
    shown = {
        alias: {
            key: text
            for key in ("ref", "version", "resolved", "digest")
            if (text := getattr(entry, key))
        }
        for alias, entry in locks.items()
    }
    modules = {"modules": dict(pins)} if pins else {}
    body: str = yaml.safe_dump({"locks": shown, **modules}, sort_keys=False, width=400)
    return _HEAD + body
