"""The folder of a package: its files by the rules for packages, and whether they have changed.

    read_folder(folder) -> (path, content), …      # raises BrokenPackage at the first broken rule
    state_of(folder), is_unchanged(state)          # without reading the files

Hidden files and what Python compiles are no part of a package, and no link leads out of its folder.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

MAX_FILES: Final = 512
MAX_FILE_BYTES: Final = 2 * 2**20
MAX_CONTRACT_BYTES: Final = 16 * 2**20  # of a file below api/
CONTRACTS: Final = "api/"
MAX_PACKAGE_BYTES: Final = 64 * 2**20  # as for registries (reference: control-plane 5.2)
# A change within this time after another one may leave the same time of modification behind.
_RACY_NS: Final = 100_000_000
Mark = tuple[int, int, int]  # mtime in ns, size, inode
Signature = tuple[tuple[str, int, int, int], ...]


class BrokenPackage(Exception):
    """A folder breaks a package rule at `path`, a path in the package."""

    def __init__(self, reason: str, path: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """A file of a package and its place on disk."""

    path: str
    real: str
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderState:
    """What a folder looked like: `signature` changes with the files of the package.

    `marks` are those of its files and folders by their place on disk. They are empty when they
    cannot tell that nothing has changed: shortly after a change, or with links.
    """

    signature: Signature
    marks: tuple[tuple[str, Mark], ...]


def read_folder(
    folder: str | Path,
    *,
    below: str = "",
    endings: tuple[str, ...] = ("",),
    leave_out: Callable[[BrokenPackage], object] | None = None,
) -> Iterator[tuple[str, bytes]]:
    """Yield the files by path with their content; raise BrokenPackage.

    The folder is the part of its package that is `below` a path. Files that end otherwise than in
    one of `endings` count and are not read. `leave_out` is told of a file whose content breaks a
    rule, instead of an exception.
    """
    budget = MAX_PACKAGE_BYTES
    for found in _Walk(folder).files():
        if found.path.lower().endswith(endings):
            try:
                content = _text_of(replace(found, path=below + found.path), budget)
            except BrokenPackage as broken:
                if leave_out is None:
                    raise
                leave_out(broken)
                continue
            budget -= len(content)
            yield below + found.path, content


def state_of(folder: str | Path) -> FolderState:
    """Look at every file of the package, without reading them."""
    walk = _Walk(folder)
    try:
        signature: Signature = tuple((found.path, *found.mark) for found in walk.files())
    except BrokenPackage as broken:
        return FolderState(signature=((f"{broken.path}: {broken.reason}", 0, 0, 0),), marks=())
    marks = (*walk.folders.items(), *walk.seen.items())
    newest = max(mark[0] for _, mark in marks)
    quiet = time.time_ns() - newest > _RACY_NS and not walk.has_links
    return FolderState(signature=signature, marks=marks if quiet else ())


def is_unchanged(state: FolderState) -> bool:
    """Return whether a package is certainly as it was; cheaper than another `state_of`."""
    try:
        return bool(state.marks) and all(_mark(path) == mark for path, mark in state.marks)
    except OSError:
        return False


def _mark(path: str) -> Mark:
    facts = os.stat(path)  # noqa: PTH116
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


def max_bytes(path: str) -> int:
    """Return how large a file may be; some public contracts are larger than any other text."""
    return MAX_CONTRACT_BYTES if path.startswith(CONTRACTS) else MAX_FILE_BYTES


def broken_text_rule(path: str, content: bytes) -> str:
    """Return why the bytes are not allowed as this file of a package, or ""."""
    if len(content) > (limit := max_bytes(path)):
        return f"is larger than {limit // 2**20} MiB"
    if b"\0" in content:
        return "contains a NUL byte"
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return f"is not UTF-8 at byte {error.start}"
    return ""


def _text_of(found: PackageFile, budget: int) -> bytes:
    if found.mark[1] > budget:
        raise BrokenPackage("makes the package larger than 64 MiB", found.path)
    try:
        with open(found.real, "rb") as file:  # noqa: PTH123 - a Path for each file is half of a walk
            content = file.read(max_bytes(found.path) + 1)
    except OSError as error:
        raise BrokenPackage(f"cannot be read: {error.strerror}", found.path) from None
    if broken := broken_text_rule(found.path, content):
        raise BrokenPackage(broken, found.path)
    return content


class _Walk:
    """One walk through the files of a package, without hidden ones and Python's `__pycache__`.

    `folders` and `seen` have the marks of the folders and files on the way, by their place on disk.
    """

    def __init__(self, folder: str | Path) -> None:
        self.root = os.path.realpath(folder)
        self.folders: dict[str, Mark] = {}
        self.seen: dict[str, Mark] = {}
        self.has_links = False

    def files(self) -> Iterator[PackageFile]:
        """Yield the files by path, at most 512; raise BrokenPackage."""
        for count, found in enumerate(self._inside(self.root, "", (self.root,)), 1):
            if count > MAX_FILES:
                raise BrokenPackage(
                    f"is one file too many: at most {MAX_FILES} are allowed", found.path
                )
            self.seen[found.real] = found.mark
            yield found

    def _inside(self, folder: str, prefix: str, chain: tuple[str, ...]) -> Iterator[PackageFile]:
        try:
            self.folders[folder] = _mark(folder)  # before its entries: a later one changes it
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            raise BrokenPackage(f"cannot be read: {error.strerror}", prefix or ".") from None
        for entry in entries:
            # pip compiles every module that it installs, also those of the example suites
            if not entry.name.startswith(".") and entry.name != "__pycache__":
                yield from self._entry(entry, prefix + entry.name, chain)

    def _entry(
        self, entry: os.DirEntry[str], path: str, chain: tuple[str, ...]
    ) -> Iterator[PackageFile]:
        shown = path.encode(errors="replace").decode()
        if shown != path:
            raise BrokenPackage("has a name that is not UTF-8", shown)
        real = self._target(entry, path)
        try:
            facts = os.stat(real)  # noqa: PTH116
        except OSError as error:
            raise BrokenPackage(f"cannot be read: {error.strerror}", path) from None
        if stat.S_ISDIR(facts.st_mode):
            if real in chain:
                raise BrokenPackage("is a link to a folder that contains it", path)
            yield from self._inside(real, f"{path}/", (*chain, real))
        elif stat.S_ISREG(facts.st_mode):
            mark = facts.st_mtime_ns, facts.st_size, facts.st_ino
            yield PackageFile(path=path, real=real, mark=mark)
        else:
            raise BrokenPackage("is neither a file nor a folder", path)

    def _target(self, entry: os.DirEntry[str], path: str) -> str:
        if not entry.is_symlink():
            return entry.path
        self.has_links = True
        real = os.path.realpath(entry.path)
        if not f"{real}/".startswith(f"{self.root}/"):
            raise BrokenPackage("is a link to a place outside the suite's folder", path)
        return real
