"""Suites of the workspace: one folder each in SUITES_DIR (reference: control-plane 6)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import ClassVar

from apps.suites import conf, workspace
from apps.suites.domain.package import Package
from apps.suites.sources import SourcedSuite, sources
from readers.folder import FolderState, is_unchanged, state_of


@sources.register("workspace")
class WorkspaceSource:
    """Looks at the files of every folder at each call: a change is seen at once."""

    rank: ClassVar[int] = 0

    def __init__(self) -> None:
        self._states: dict[str, FolderState] = {}

    def suites(self) -> Sequence[SourcedSuite]:
        folders = workspace.suite_folders(conf.suites_dir())
        states = {folder: self._state(folder) for folder in folders.values()}
        self._states = states
        return [_sourced(suite_id, at, states[at]) for suite_id, at in folders.items()]

    def token(self) -> Hashable:
        """Change when a folder comes or goes, or the root is another one."""
        root = conf.suites_dir()
        try:
            return str(root), root.stat().st_mtime_ns
        except OSError:
            return str(root), 0

    def find(self, reference: str) -> SourcedSuite | None:
        return None

    def _state(self, folder: str) -> FolderState:
        state = self._states.get(folder)
        if state is None or not is_unchanged(state):
            return state_of(folder)
        return state


def _sourced(suite_id: str, folder: str, state: FolderState) -> SourcedSuite:
    return SourcedSuite(
        key=folder,
        ids=(suite_id,),
        stamp=state.signature,
        read=partial(_read, folder=folder),
        is_current=partial(is_unchanged, state),
    )


def _read(suite_id: str, folder: str) -> Package:
    return workspace.read_package(suite_id, folder)
