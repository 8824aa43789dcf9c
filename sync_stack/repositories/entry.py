"""Entries of a commit's tree, and which of them may be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sync_stack.repositories.program import GitError

_SYMLINK: Final = "120000"
_SUBMODULE: Final = "160000"
_LFS: Final = b"version https://git-lfs.github.com/spec/v1"
MAX_PATH: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEntry:
    """One path of a commit. `id` names its content."""

    path: str
    mode: str
    id: str

    @property
    def is_file(self) -> bool:
        return self.mode not in (_SYMLINK, _SUBMODULE)


def entries(listing: bytes) -> dict[str, TreeEntry]:
    """Path → entry, of the output of `ls-tree -z`; paths that are no UTF-8 cannot be named."""
    found = {}
    for line in listing.split(b"\0"):
        head, _, name = line.partition(b"\t")
        try:
            path = name.decode()
        except UnicodeDecodeError:
            continue
        if path:
            mode, _kind, identity = head.decode().split(" ")
            found[path] = TreeEntry(path=path, mode=mode, id=identity)
    return found


def check_path(path: str) -> None:
    """Raises GitError(file_missing) for a path that no tree can hold or that leads out of it."""
    parts = path.split("/")
    bad = not path or len(path) > MAX_PATH or "\0" in path or "\\" in path
    if bad or any(part in ("", ".", "..") for part in parts):
        raise GitError("file_missing", "no path inside a repository", file=path[:200])


def readable(tree: Mapping[str, TreeEntry], path: str) -> TreeEntry | None:
    """The entry of a regular file; None when the tree has no such path.

    Raises GitError for symbolic links and submodules, also on the way to the file.
    """
    check_path(path)
    parts = path.split("/")
    for depth in range(1, len(parts) + 1):
        entry = tree.get("/".join(parts[:depth]))
        if entry is not None and entry.mode == _SYMLINK:
            raise GitError("path_is_symlink", f"{entry.path!r} is a symbolic link", file=path)
        if entry is not None and entry.mode == _SUBMODULE:
            raise GitError("path_is_submodule", f"{entry.path!r} is a submodule", file=path)
    return tree.get(path)


def refuse_pointer(content: bytes, path: str) -> None:
    if content.startswith(_LFS):
        raise GitError("lfs_pointer", "the file is kept in Git LFS, not in Git", file=path)
