"""The workspace folder, with one folder for each suite (reference: control-plane 6)."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from apps.suites.domain.package import TOPOLOGY_FILE, Package
from kernel.errors import PlatformError
from kernel.ids import is_identifier
from readers.folder import BrokenPackage, read_folder

_SCRIPT: Final = 0o755
_PLAIN: Final = 0o644


class FolderTaken(PlatformError):
    code = "suite_exists"

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} exists and is not empty; choose another folder")


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


def read_package(suite_id: str, folder: str | Path) -> Package:
    """Return the files and the first broken rule; never raise because of the content."""
    files: dict[str, bytes] = {}
    if not is_identifier(suite_id):
        return Package(
            suite_id=suite_id, files=files, problem=f'"{suite_id}" is not a valid suite id'
        )
    try:
        files.update(read_folder(folder))  # what was read before a broken rule stays
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
