"""Files below a root: nothing outside it is reached, and nothing half-written is ever seen."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sync_stack.core.sink import SinkError
from sync_stack.sinks.limits import Deadline

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER_MODE: Final = 0o750
_LOCK_PAUSE_S: Final = 0.02
MAX_BYTES: Final = 64 * 2**20
TEMPORARY: Final = ".partita-"


class Mistyped(SinkError):
    """A link, a folder or a device stands where a file is expected, or a file or link in a path."""

    def __init__(self, detail: str) -> None:
        super().__init__("destination_invalid", detail)


@contextlib.contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Raise errors of the system as errors of the sink; symlinks are refused anywhere."""
    try:
        yield
    except OSError as error:
        raise _fact(error, path) from None


def _fact(error: OSError, path: str) -> SinkError:
    words = f"{path}: {os.strerror(error.errno or 0)}"
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO):
        return Mistyped(f"{words} (symlinks are refused)")
    if error.errno == errno.ENAMETOOLONG:
        return SinkError("destination_invalid", words)
    if error.errno == errno.ENOTEMPTY:
        return SinkError(
            "unowned_destination", f"{path} is a directory with files that Partita did not write"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return SinkError("sink_auth", words)
    return SinkError("sink_unavailable", words)


class FileStore:
    """Paths are relative to the root, with `/`; every part is opened without following links."""

    def __init__(self, root: Path, *, file_mode: int) -> None:
        self.root = root
        self._file_mode = file_mode

    def read(self, path: str) -> bytes | None:
        """The content; None when there is no such file. Raises Mistyped."""
        with translate_errors(path), self._parent(path, create=False) as folder:
            return None if folder is None else self._read(folder, path)

    def _read(self, folder: int, path: str) -> bytes | None:
        try:
            handle = os.open(
                _name(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder
            )
        except FileNotFoundError:
            return None
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise Mistyped(f"{path} is not a regular file")
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise SinkError("destination_too_large", f"{path} is larger than {MAX_BYTES} bytes")
        return content

    def write(
        self, path: str, content: bytes, *, mode: int | None = None, mistyped: bool = False
    ) -> None:
        """Replace the whole file at once: temporary file, fsync, rename, fsync of the folder.

        An existing file keeps its mode unless `mode` says otherwise. `mistyped`: a link (never
        what it leads to), a device or an empty folder is replaced too; otherwise it is refused.
        """
        with translate_errors(path), self._parent(path, create=True) as folder:
            assert folder is not None
            temporary = f"{TEMPORARY}{secrets.token_hex(8)}.tmp"
            try:
                known = self._file_mode if mistyped else self._mode_of(folder, path)
                self._fill(folder, temporary, content, mode or known)
                if mistyped:
                    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                        os.rmdir(_name(path), dir_fd=folder)
                os.rename(temporary, _name(path), src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            os.fsync(folder)

    def _fill(self, folder: int, name: str, content: bytes, mode: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())

    def _mode_of(self, folder: int, path: str) -> int:
        """Raises for a link or a folder in the file's place."""
        try:
            found = os.stat(_name(path), dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return self._file_mode
        if not stat.S_ISREG(found.st_mode):
            raise Mistyped(f"{path} is not a regular file")
        return stat.S_IMODE(found.st_mode)

    def delete(self, path: str) -> None:
        """Delete a file if it exists."""
        with translate_errors(path), self._parent(path, create=False) as folder:
            if folder is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(_name(path), dir_fd=folder)
                    os.fsync(folder)

    def names(self, path: str) -> list[str]:
        """Regular files of a folder, without our temporary ones; empty when it does not exist."""
        with translate_errors(path), self._parent(f"{path}/-", create=False) as folder:
            if folder is None:
                return []
            with os.scandir(folder) as entries:
                files = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
            return sorted(name for name in files if not name.startswith(TEMPORARY))

    @contextlib.contextmanager
    def lock_file(self, path: str, deadline: Deadline) -> Iterator[None]:
        """Hold a file's lock among all processes that see the folder. Raises `sink_timeout`."""
        with translate_errors(path), self._parent(path, create=True) as folder:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(_name(path), flags, 0o600, dir_fd=folder)
        try:
            _lock(handle, deadline)
            yield
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def _parent(self, path: str, *, create: bool) -> Iterator[int | None]:
        """The folder of a path, open; None when it does not exist and is not to be made."""
        if create:
            self.root.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            try:
                folder = _close_with(stack, os.open(self.root, os.O_RDONLY | os.O_DIRECTORY))
                for part in path.split("/")[:-1]:
                    if create:
                        with contextlib.suppress(FileExistsError):
                            os.mkdir(part, _FOLDER_MODE, dir_fd=folder)
                    folder = _close_with(stack, os.open(part, _FOLDER, dir_fd=folder))
            except FileNotFoundError:
                yield None
                return
            yield folder


def _close_with(stack: contextlib.ExitStack, handle: int) -> int:
    stack.callback(os.close, handle)
    return handle


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _lock(handle: int, deadline: Deadline) -> None:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            deadline.check()
            time.sleep(_LOCK_PAUSE_S)
        else:
            return
