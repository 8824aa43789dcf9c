"""A file that people read and edit, and that says the same as the store."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MODE: Final = 0o600


class NotText(ValueError):
    """The file is too large or not UTF-8; the message says which, without the file's name."""


@dataclass(frozen=True, slots=True)
class MirroredFile:
    path: Path
    max_bytes: int

    def content(self) -> bytes | None:
        """Return the content, or None without a file; raise OSError.

        Of a file that is too large, it is one byte more than `max_bytes`.
        """
        try:
            with self.path.open("rb") as file:
                return file.read(self.max_bytes + 1)
        except FileNotFoundError:
            return None

    def text_of(self, content: bytes) -> str:
        """Return the text of a content; raise NotText."""
        if len(content) > self.max_bytes:
            raise NotText(f"is larger than {self.max_bytes} bytes")
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise NotText(f"is not UTF-8 (byte {error.start})") from None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Let one process of this machine write in the folder at a time; raise OSError.

        A lock ends with its process.
        """
        handle = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def replace(self, content: bytes) -> None:
        """Replace the file at once, readable by its owner only; the caller holds the lock.

        A crash leaves the old content or the new one. Raise OSError.
        """
        beside = self.path.with_name(f".{self.path.name}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        try:
            with os.fdopen(os.open(beside, flags, _MODE), "wb") as file:
                os.fchmod(file.fileno(), _MODE)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def digest_of(content: bytes) -> str:
    """Return the sha256 by which a content is known again."""
    return hashlib.sha256(content).hexdigest()
