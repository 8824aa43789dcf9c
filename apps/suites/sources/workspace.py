"""Suites of the workspace: one folder each in SUITES_DIR (reference: control-plane 6)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar

from apps.suites import conf
from apps.suites.domain.metadata import FILES as METADATA_FILES
from apps.suites.domain.package import Package
from apps.suites.sources import SourcedSuite, folders, sources
from readers.folder import MAX_FILE_BYTES, FolderState, is_unchanged, state_of


@sources.register("workspace")
class WorkspaceSource:
    """Looks at the files of each folder that is read, at each call: a change is seen at once."""

    rank: ClassVar[int] = 0
    reads_store: ClassVar[bool] = False

    def __init__(self) -> None:
        self._states: dict[str, FolderState] = {}

    def suites(self) -> Sequence[SourcedSuite]:
        found = folders.suite_folders(conf.suites_dir())
        for gone in set(self._states) - set(found.values()):
            self._states.pop(gone, None)
        return [_source_folder(suite_id, _Look(at, self._states)) for suite_id, at in found.items()]

    def token(self) -> Hashable:
        """Change when a folder comes or goes, or the root is another one."""
        root = conf.suites_dir()
        try:
            return str(root), root.stat().st_mtime_ns
        except OSError:
            return str(root), 0

    def find(self, reference: str) -> SourcedSuite | None:
        return None


class _Look:
    """One look at the files of a folder, when somebody first asks; `states`: of earlier looks."""

    def __init__(self, folder: str, states: dict[str, FolderState]) -> None:
        self.folder = folder
        self._states = states

    @cached_property
    def _state(self) -> FolderState:
        state = self._states.get(self.folder)
        if state is None or not is_unchanged(state):
            state = self._states[self.folder] = state_of(self.folder)
        return state

    def signature(self) -> Hashable:
        return self._state.signature

    def is_current(self) -> bool:
        return is_unchanged(self._state)


def _source_folder(suite_id: str, look: _Look) -> SourcedSuite:
    return SourcedSuite(
        key=look.folder,
        ids=(suite_id,),
        stamp=look.signature,
        read=partial(_read, folder=look.folder),
        is_current=look.is_current,
        may_be=partial(_may_be, suite_id, look.folder),
    )


def _may_be(suite_id: str, folder: str, repositories: Collection[str]) -> bool:
    """Return whether a file that may name the suite's repository holds one of these names."""
    if f"workspace/{suite_id}" in repositories:
        return True
    named = [each.encode() for each in repositories]
    texts = (Path(folder, path) for path in METADATA_FILES)
    for path in (*texts, *Path(folder, "profiles").glob("*.y*ml")):
        try:
            text = path.read_bytes()[:MAX_FILE_BYTES]
        except OSError:
            continue
        if any(name in text for name in named):
            return True
    return False


def _read(suite_id: str, folder: str) -> Package:
    return folders.read_package(suite_id, folder)
