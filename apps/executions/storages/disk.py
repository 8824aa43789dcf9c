"""Artifacts as files below a folder, 0700 and 0600, which several processes may share.

Each part of a path is opened on its own and never through a symbolic link.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

from django.core.files.storage import FileSystemStorage
from django.utils.deconstruct import deconstructible

from apps.executions.domain.artifact_storage import (
    CHUNK_BYTES,
    ArtifactLost,
    FoundObject,
    StorageMisconfigured,
    StorageUnavailable,
    StorageUnreachable,
    is_object_name,
)

_AWAY: Final = frozenset(  # what a network file system answers when its server does not
    {
        errno.ETIMEDOUT,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.ENOTCONN,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
    }
)
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@deconstructible(path="apps.executions.storages.disk.DiskStorage")
class DiskStorage(FileSystemStorage):
    """`is_made`: the folder is made if it is missing. Any other one may be a disk to be mounted."""

    def __init__(self, location: str, *, is_made: bool = False) -> None:
        super().__init__(
            location=location,
            file_permissions_mode=_FILE_MODE,
            directory_permissions_mode=_FOLDER_MODE,
        )
        self._root = Path(location)
        self._is_made = is_made

    def write(self, name: str, body: bytes) -> None:
        with _translate_errors():
            try:
                self._write(name, body)
            except FileNotFoundError:  # `remove` took the empty folder of the run meanwhile
                self._write(name, body)

    def _write(self, name: str, body: bytes) -> None:
        if self._is_made:
            self._root.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        with self._open_root() as root, _open_folder_of(name, root, makes=True) as (folder, file):
            part = f"{file}.part"
            handle = os.open(part, _NEW, _FILE_MODE, dir_fd=folder)
            try:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(body)
                    stream.flush()
                    os.fsync(handle)
                os.replace(part, file, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(part, dir_fd=folder)
                raise
            os.fsync(folder)

    def read(self, name: str) -> Iterator[bytes]:
        with _translate_errors():
            with (
                self._open_root() as root,
                _raise_lost_if_missing(),
                _open_folder_of(name, root) as (folder, file),
            ):
                handle = os.open(file, _READ, dir_fd=folder)
            with os.fdopen(handle, "rb") as stream:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise ArtifactLost
                while chunk := stream.read(CHUNK_BYTES):
                    yield chunk

    def remove(self, name: str) -> None:
        if not is_object_name(name):
            return
        with _translate_errors(), self._open_root() as root:
            try:
                with _open_folder_of(name, root) as (folder, file):
                    os.unlink(file, dir_fd=folder)
            except (FileNotFoundError, NotADirectoryError):
                return
            with suppress(OSError):  # it has more files, or another process was first
                os.rmdir(name.rpartition("/")[0], dir_fd=root)

    def check(self) -> None:
        """Write and remove a file, as uploads do."""
        name = f".check-{uuid4().hex}"
        with _translate_errors():
            if self._is_made:
                self._root.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            with self._open_root() as root:
                try:
                    os.close(os.open(name, _NEW, _FILE_MODE, dir_fd=root))
                except PermissionError:
                    raise StorageMisconfigured("its folder cannot be written") from None
                os.unlink(name, dir_fd=root)

    def list_objects(self, folder: str, after: str, limit: int) -> Sequence[FoundObject]:
        first_run = after.removeprefix(f"{folder}/").rpartition("/")[0]
        found: list[FoundObject] = []
        with _translate_errors(), self._open_root() as root:
            for run_id in _sorted_names(folder, root):
                if f"{run_id}/" < f"{first_run}/":
                    continue
                for file in _sorted_names(f"{folder}/{run_id}", root):
                    name = f"{folder}/{run_id}/{file}"
                    modified_at = _modified_at(name, root) if name > after else None
                    if modified_at is not None:
                        found.append(FoundObject(name, modified_at))
                    if len(found) >= limit:
                        return found
        return found

    @contextmanager
    def _open_root(self) -> Iterator[int]:
        """Open the folder itself, which may be a link: whoever set it knows."""
        try:
            root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise StorageMisconfigured("its folder does not exist; make it, or mount it") from None
        except PermissionError:
            raise StorageMisconfigured("its folder cannot be opened") from None
        except ValueError:  # it has a NUL
            raise StorageMisconfigured("its folder has no valid path") from None
        try:
            yield root
        finally:
            os.close(root)


@contextmanager
def _open_folder_of(name: str, root: int, *, makes: bool = False) -> Iterator[tuple[int, str]]:
    """Open the folder of an object below the root; yield it and the name of the file."""
    if not is_object_name(name):
        raise ArtifactLost
    folders, _, file = name.rpartition("/")
    with _open_folder(folders, root, makes=makes) as folder:
        yield folder, file


@contextmanager
def _open_folder(path: str, root: int, *, makes: bool = False) -> Iterator[int]:
    current = os.dup(root)
    try:
        for each in path.split("/"):
            if makes:
                with suppress(FileExistsError):
                    os.mkdir(each, _FOLDER_MODE, dir_fd=current)
            inner = os.open(each, _FOLDER, dir_fd=current)
            os.close(current)
            current = inner
        yield current
    finally:
        os.close(current)


def _sorted_names(path: str, root: int) -> list[str]:
    """Return the names in a folder below the root; none if it is missing, a file or a link.

    They are in the order of the paths that begin with them.
    """
    try:
        with _open_folder(path, root) as folder:
            names = os.listdir(folder)  # noqa: PTH208 - of a descriptor
            return sorted(names, key=lambda name: f"{name}/")
    except (FileNotFoundError, NotADirectoryError):
        return []


def _modified_at(name: str, root: int) -> datetime | None:
    try:
        facts = os.stat(name, dir_fd=root, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return datetime.fromtimestamp(facts.st_mtime, UTC)


@contextmanager
def _raise_lost_if_missing() -> Iterator[None]:
    """Raise ArtifactLost where a part of the path is missing, or is a link instead."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise ArtifactLost from None
        raise


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise StorageUnavailable for an error of the file system, without its path."""
    try:
        yield
    except OSError as error:
        kind = StorageUnreachable if error.errno in _AWAY else StorageUnavailable
        raise kind(error.strerror or type(error).__name__) from error
