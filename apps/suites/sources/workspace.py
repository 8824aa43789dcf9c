"""Suites of the workspace: one folder each in SUITES_DIR (reference: control-plane 6)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from apps.suites import conf, workspace
from apps.suites.domain.package import Package
from apps.suites.sources import SourcedSuite, sources


@sources.register("workspace")
class WorkspaceSource:
    """Looks at the files of every folder at each call: a change is seen at once."""

    rank: ClassVar[int] = 0

    def __init__(self) -> None:
        self._states: dict[Path, workspace.FolderState] = {}

    def suites(self) -> Sequence[SourcedSuite]:
        folders = workspace.suite_folders(conf.suites_dir())
        for gone in self._states.keys() - set(folders.values()):
            self._states.pop(gone, None)
        return [self._sourced(suite_id, folder) for suite_id, folder in folders.items()]

    def find(self, reference: str) -> SourcedSuite | None:
        return None

    def _sourced(self, suite_id: str, folder: Path) -> SourcedSuite:
        state = self._states.get(folder)
        if state is None or not workspace.is_unchanged(state):
            state = self._states[folder] = workspace.state_of(folder)
        return SourcedSuite(
            key=str(folder),
            ids=(suite_id,),
            stamp=state.signature,
            read=partial(_read, folder=folder),
        )


def _read(suite_id: str, folder: Path) -> Package:
    return workspace.read_package(suite_id, folder)
