"""The workspace folder, with one folder for each suite (reference: control-plane 6)."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apps.suites.domain.package import (
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_PACKAGE_BYTES,
    TOPOLOGY_FILE,
    Package,
    broken_text_rule,
)
from kernel.errors import PlatformError
from kernel.ids import is_identifier

_SCRIPT: Final = 0o755
_PLAIN: Final = 0o644
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
    """A file of a package and its place on disk; `mark` is its mtime in ns, size and inode."""

    path: str
    real: str
    mark: tuple[int, int, int]


def suite_folders(root: Path) -> dict[str, Path]:
    """Return the folders with a suite.star by suite id, none without a root."""
    try:
        entries = list(os.scandir(root))
    except OSError:
        return {}
    folders = {
        entry.name.encode(errors="replace").decode(): Path(entry.path)
        for entry in entries
        if not entry.name.startswith(".") and os.path.lexists(f"{entry.path}/{TOPOLOGY_FILE}")
    }
    return dict(sorted(folders.items()))


def signature(folder: Path) -> Signature:
    """Return a value that changes with the files of the package, without reading them."""
    try:
        return tuple((found.path, *found.mark) for found in _walk(folder))
    except BrokenPackage as broken:
        return ((f"{broken.path}: {broken.reason}", 0, 0, 0),)


def read_package(suite_id: str, folder: Path) -> Package:
    """Return the files and the first broken rule; never raise because of the content."""
    files: dict[str, bytes] = {}
    if not is_identifier(suite_id):
        return Package(
            suite_id=suite_id, files=files, problem=f'"{suite_id}" is not a valid suite id'
        )
    try:
        room = MAX_PACKAGE_BYTES
        for found in _walk(folder):
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


def _text_of(found: PackageFile, room: int) -> bytes:
    if found.mark[1] > room:
        raise BrokenPackage("makes the package larger than 64 MiB", found.path)
    try:
        with open(found.real, "rb") as file:  # noqa: PTH123 - a Path for each file is half of a walk
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise BrokenPackage(f"cannot be read: {error.strerror}", found.path) from None
    if broken := broken_text_rule(content):
        raise BrokenPackage(broken, found.path)
    return content


def _walk(folder: Path) -> Iterator[PackageFile]:
    """Yield the files that are not hidden, by path, at most 512; raise BrokenPackage."""
    root = os.path.realpath(folder)
    for count, found in enumerate(_inside(root, root, "", (root,)), 1):
        if count > MAX_FILES:
            raise BrokenPackage(
                f"is one file too many: at most {MAX_FILES} are allowed", found.path
            )
        yield found


def _inside(root: str, folder: str, prefix: str, chain: tuple[str, ...]) -> Iterator[PackageFile]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise BrokenPackage(f"cannot be read: {error.strerror}", prefix or ".") from None
    for entry in entries:
        if not entry.name.startswith("."):
            yield from _entry(root, entry, prefix + entry.name, chain)


def _entry(
    root: str, entry: os.DirEntry[str], path: str, chain: tuple[str, ...]
) -> Iterator[PackageFile]:
    shown = path.encode(errors="replace").decode()
    if shown != path:
        raise BrokenPackage("has a name that is not UTF-8", shown)
    real = _target(root, entry, path)
    try:
        facts = os.stat(real)  # noqa: PTH116
    except OSError as error:
        raise BrokenPackage(f"cannot be read: {error.strerror}", path) from None
    if stat.S_ISDIR(facts.st_mode):
        if real in chain:
            raise BrokenPackage("is a link to a folder that contains it", path)
        yield from _inside(root, real, f"{path}/", (*chain, real))
    elif stat.S_ISREG(facts.st_mode):
        yield PackageFile(
            path=path, real=real, mark=(facts.st_mtime_ns, facts.st_size, facts.st_ino)
        )
    else:
        raise BrokenPackage("is neither a file nor a folder", path)


def _target(root: str, entry: os.DirEntry[str], path: str) -> str:
    if not entry.is_symlink():
        return entry.path
    real = os.path.realpath(entry.path)
    if not f"{real}/".startswith(f"{root}/"):
        raise BrokenPackage("is a link to a place outside the suite's folder", path)
    return real
