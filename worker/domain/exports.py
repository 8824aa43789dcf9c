"""Export paths: the directories to search, the names that match, and their files out of a tar.

A relative path is looked for in directories of the step's own, never in the one that it shares.

(reference: control-plane 7.4)
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final

import re2

from worker.domain.runtime import (
    FILE_LIMIT,
    MATCH_LIMIT,
    WORKSPACE,
    CollectedFile,
    Folders,
    PathRefused,
)

# Files of the suite get this time (1980-01-01 00:00:01 UTC), so that one that a step did not
# write is not taken for its result. No tool that fixes times uses it: they use 0 or a full minute.
SUITE_FILE_MTIME: Final = 315_532_801


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Look below `folder` (absolute, no globs in it) for files whose whole path matches `pattern`.

    `prefix` is left out of found paths when they are shown; empty for an absolute export path.
    `has_suite_files`: files that came with the suite are there, too.
    """

    folder: str
    pattern: str
    prefix: str
    has_suite_files: bool = False

    def matches(self, path: str, *, mtime: float = 0) -> bool:
        """Return whether the file is a result; `mtime`: when it was written, in Unix seconds."""
        if self.has_suite_files and int(mtime) == SUITE_FILE_MTIME:
            return False
        return _expression(self.pattern).fullmatch(path) is not None

    def strip_prefix(self, path: str) -> str:
        return path.removeprefix(self.prefix)

    @property
    def is_exact(self) -> bool:
        """Return whether the path has no globs."""
        return self.folder == self.pattern


def searches(path: str, folders: Folders, *, working: str = "") -> tuple[Search, ...]:
    """Return the searches in order. Raises PathRefused for a path with `..`.

    `working`: where the step's program starts, if that is a directory of its image.
    """
    if ".." in PurePosixPath(path).parts:
        raise PathRefused(f"export path {path!r} must not contain '..'")
    if path.startswith("/"):
        return (_search(path, folders),)
    own = dict.fromkeys(filter(None, (folders.artifacts, folders.step, working)))
    found = [_search(path, folders, root=root) for root in own]
    return tuple(search for search in found if search.folder != "/")  # `*.xml` of a whole image


def search_shared(path: str, folders: Folders) -> Search | None:
    """Return where a relative path without globs would be in the shared directory."""
    if path.startswith("/"):
        return None
    search = _search(path, folders, root=folders.workspace)
    return search if search.is_exact else None


def shared_hint(path: str) -> str:
    """Say what to write instead, for a file that is in the shared directory only."""
    return (
        f"there is one in the shared directory, where it may be another step's: write it to the "
        f"directory in which the step starts or to $PARTITA_ARTIFACTS_DIR, or export "
        f"{WORKSPACE}/{path}"
    )


def _search(path: str, folders: Folders, *, root: str = "") -> Search:
    parts = PurePosixPath(root, path).parts
    plain = []
    for part in parts:
        if any(sign in part for sign in "*?"):
            break
        plain.append(part)
    folder = PurePosixPath(*plain)
    return Search(
        folder=str(folder),
        pattern=str(PurePosixPath(*parts)),
        prefix=f"{root.rstrip('/')}/" if root else "",
        has_suite_files=folder.is_relative_to(folders.step),
    )


@lru_cache(maxsize=256)
def _expression(pattern: str) -> re2._Regexp:
    """Compile a glob: `*` and `?` match within one part of the path, `**` any number of parts."""
    tokens = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    meanings = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re2.compile(
        "(?s)" + "".join(meanings.get(token) or re2.escape(token) for token in tokens)
    )


def take_files(
    archive: tarfile.TarFile, search: Search, files: list[CollectedFile], skipped: list[str]
) -> None:
    """Add the files that match; say in `skipped` why others that match are left out.

    The archive is that of the folder, whose own name its names begin with.
    """
    for member, name in _matching(archive, search):
        if len(files) == MATCH_LIMIT:
            skipped.append(f"more than {MATCH_LIMIT} files match; the rest is left out")
            break
        body = archive.extractfile(member)
        if body is None or member.size > FILE_LIMIT:
            skipped.append(f"{search.strip_prefix(name)}: larger than {FILE_LIMIT // 2**20} MiB")
        else:
            files.append(CollectedFile(path=search.strip_prefix(name), body=body.read()))


def _matching(archive: tarfile.TarFile, search: Search) -> Iterator[tuple[tarfile.TarInfo, str]]:
    base = PurePosixPath(search.folder).parent
    for member in archive:
        name = str(base / member.name)
        is_plain = member.isreg() and ".." not in PurePosixPath(member.name).parts
        if is_plain and search.matches(name, mtime=member.mtime):
            yield member, name
