"""Artifacts of an ended process: below its own folders, never through a link.

(reference: control-plane 7.4)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from worker.domain.exports import Search, searches
from worker.domain.runtime import (
    FILE_LIMIT,
    MATCH_LIMIT,
    Collected,
    CollectedFile,
    PathRefused,
)
from worker.runtimes.process.units import UnitFolder


def collect(folder: UnitFolder, path: str) -> Collected:
    """Raises PathRefused for a path outside the artifacts and work folders."""
    artifacts, workspace = folder.artifacts.resolve(), folder.workspace.resolve()
    real = _translated(path, artifacts=artifacts, workspace=workspace)
    for search in searches(real, artifacts=str(artifacts), workspace=str(workspace)):
        if not any(
            PurePosixPath(search.folder).is_relative_to(root) for root in (artifacts, workspace)
        ):
            raise PathRefused(f"export path {path!r} is outside the artifacts and work folders")
        found = _found(search)
        if found.files or found.skipped:
            return found
    return Collected()


def _translated(path: str, *, artifacts: Path, workspace: Path) -> str:
    """`/partita/…` paths as suites write them for containers."""
    roots = {"/partita/artifacts": artifacts, "/partita/workspace": workspace}
    for name, root in roots.items():
        if path == name or path.startswith(f"{name}/"):
            return str(root) + path.removeprefix(name)
    return path


def _found(search: Search) -> Collected:
    files: list[CollectedFile] = []
    skipped: list[str] = []
    for path in _regular_files(search.folder):
        if not search.matches(path):
            continue
        if len(files) == MATCH_LIMIT:
            skipped.append(f"more than {MATCH_LIMIT} files match; the rest is left out")
            break
        # one byte more than allowed, at most; a link put there meanwhile is not followed
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            body = file.read(FILE_LIMIT + 1)
        if len(body) > FILE_LIMIT:
            skipped.append(f"{search.shown(path)}: larger than {FILE_LIMIT // 2**20} MiB")
        else:
            files.append(CollectedFile(path=search.shown(path), body=body))
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
