"""The workspace folder, with one folder for each suite (reference: control-plane 6)."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apps.suites.domain.package import (
    MAX_FILES,
    MAX_PACKAGE_BYTES,
    TOPOLOGY_FILE,
    Package,
    broken_text_rule,
    max_bytes,
)
from kernel.errors import PlatformError
from kernel.ids import is_identifier

_SCRIPT: Final = 0o755
_PLAIN: Final = 0o644
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


class FolderTaken(PlatformError):
    code = "suite_exists"

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} exists and is not empty; choose another folder")


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


def suite_folders(root: Path) -> dict[str, str]:
    """Return the folders with a suite.star by suite id, none without a root."""
    try:
        entries = list(os.scandir(root))
    except OSError:
        return {}
    folders = {
        entry.name.encode(errors="replace").decode(): entry.path
        for entry in entries
        if not entry.name.startswith(".") and os.path.lexists(f"{entry.path}/{TOPOLOGY_FILE}")
    }
    return dict(sorted(folders.items()))


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


def read_package(suite_id: str, folder: str | Path) -> Package:
    """Return the files and the first broken rule; never raise because of the content."""
    files: dict[str, bytes] = {}
    if not is_identifier(suite_id):
        return Package(
            suite_id=suite_id, files=files, problem=f'"{suite_id}" is not a valid suite id'
        )
    try:
        room = MAX_PACKAGE_BYTES
        for found in _Walk(folder).files():
            files[found.path] = _text_of(found, room)
            room -= len(files[found.path])
    except BrokenPackage as broken:
        return Package(
            suite_id=suite_id,
            files=files,
            problem=f"{broken.path} {broken.reason}",
            problem_file=broken.path,
        )
    return Package(suite_id=suite_id, files=files)


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Write all files or none into a new or empty folder; scripts become executable.

    Raise FolderTaken and OSError.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        made = Path(scratch) / "files"
        for path, content in files.items():
            target = made / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(_SCRIPT if content.startswith(b"#!") else _PLAIN)
        try:
            made.rename(folder)  # replaces an empty folder, never another
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise FolderTaken(folder) from None
            raise


def replace_file(path: Path, text: str) -> None:
    """Write a file whole or not at all; raise OSError."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", newline="", dir=path.parent, prefix=f".{path.name}-", delete=False
    ) as file:
        scratch = Path(file.name)
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            scratch.chmod(path.stat().st_mode & 0o777 if path.exists() else _PLAIN)
            scratch.replace(path)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise


def _text_of(found: PackageFile, room: int) -> bytes:
    if found.mark[1] > room:
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
    """One walk through the files of a package that are not hidden.

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
            if not entry.name.startswith("."):
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
