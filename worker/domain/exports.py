"""Export paths: the folders to search and the names that match (reference: control-plane 7.4)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

import re2

from worker.domain.runtime import PathRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Look below `folder` (absolute, no globs in it) for files whose whole path matches `pattern`.

    `root`: the folder that found paths are shown relative to; empty for an absolute export path.
    """

    folder: str
    pattern: str
    root: str

    def matches(self, path: str) -> bool:
        return _expression(self.pattern).fullmatch(path) is not None

    def shown(self, path: str) -> str:
        return path.removeprefix(f"{self.root}/") if self.root else path


def searches(path: str, *, artifacts: str, workspace: str) -> tuple[Search, ...]:
    """Return the searches in order. Raises PathRefused for a path with `..`."""
    if ".." in PurePosixPath(path).parts:
        raise PathRefused(f"export path {path!r} must not contain '..'")
    if path.startswith("/"):
        return (_search(path, root=""),)
    return tuple(
        _search(f"{root}/{PurePosixPath(path)}", root=root) for root in (artifacts, workspace)
    )


def _search(pattern: str, *, root: str) -> Search:
    parts = PurePosixPath(pattern).parts
    plain = []
    for part in parts:
        if any(sign in part for sign in "*?"):
            break
        plain.append(part)
    return Search(folder=str(PurePosixPath(*plain)), pattern=str(PurePosixPath(*parts)), root=root)


@lru_cache(maxsize=256)
def _expression(pattern: str) -> re2._Regexp:
    """Compile a glob: `*` and `?` match within one part of the path, `**` any number of parts."""
    tokens = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    meanings = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re2.compile(
        "(?s)" + "".join(meanings.get(token) or re2.escape(token) for token in tokens)
    )
