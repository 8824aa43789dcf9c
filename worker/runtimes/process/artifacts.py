"""Artifacts of an ended process: below its own folders, never through a link.

(reference: control-plane 7.4)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from worker.domain.exports import Search, search_shared, searches, shared_hint
from worker.domain.runtime import (
    CONTAINER_FOLDERS,
    FILE_LIMIT,
    MATCH_LIMIT,
    Collected,
    CollectedFile,
    Folders,
    PathRefused,
)
from worker.runtimes.process.units import UnitFolder


def collect(folder: UnitFolder, path: str) -> Collected:
    """Return what matches. Raises PathRefused for a path outside the step's directories."""
    folders = Folders(
        workspace=str(folder.workspace.resolve()),
        step=str(folder.step.resolve()),
        artifacts=str(folder.artifacts.resolve()),
    )
    roots = (folders.artifacts, folders.step, folders.workspace)
    for search in searches(_translate(path, folders), folders):
        if not any(PurePosixPath(search.folder).is_relative_to(root) for root in roots):
            raise PathRefused(f"export path {path!r} is outside the step's directories")
        found = _find_files(search)
        if found.files or found.skipped:
            return found
    shared = search_shared(path, folders)
    if shared and _find_files(shared).files:
        return Collected(hint=shared_hint(path))
    return Collected()


def _translate(path: str, folders: Folders) -> str:
    """Return a `/partita/…` path, as suites write it for containers, as it is on this host."""
    there = CONTAINER_FOLDERS
    roots = {
        there.artifacts: folders.artifacts,
        there.step: folders.step,
        there.workspace: folders.workspace,
    }
    for name, root in roots.items():
        if path == name or path.startswith(f"{name}/"):
            return root + path.removeprefix(name)
    return path


def _find_files(search: Search) -> Collected:
    files: list[CollectedFile] = []
    skipped: list[str] = []
    for path in _regular_files(search.folder):
        if not search.matches(path, mtime=Path(path).lstat().st_mtime):
            continue
        if len(files) == MATCH_LIMIT:
            skipped.append(f"more than {MATCH_LIMIT} files match; the rest is left out")
            break
        # one byte more than allowed, at most; a link put there meanwhile is not followed
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            body = file.read(FILE_LIMIT + 1)
        if len(body) > FILE_LIMIT:
            skipped.append(f"{search.strip_prefix(path)}: larger than {FILE_LIMIT // 2**20} MiB")
        else:
            files.append(CollectedFile(path=search.strip_prefix(path), body=body))
    return Collected(files=tuple(files), skipped=tuple(skipped))


def _regular_files(start: str) -> Iterator[str]:
    top = Path(start)
    if top.resolve() != top:  # a link on the way
        return
    if top.is_file():
        yield start
    for parent, folders, names in os.walk(start, followlinks=False):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            if path.is_file() and not path.is_symlink():
                yield str(path)
