"""Files that are written as they come: never over another file, never half a file."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPResponse
from pathlib import Path
from typing import BinaryIO, Final

from partita_client.errors import BadConfiguration, NoConnection, WaitTimeout
from partita_client.transport import HttpTransport, pause_s

_CHUNK: Final = 2**18
_TRIES: Final = 6
_IDLE_S: Final = 60.0
_PART_CHARACTERS: Final = 40


def download_file(
    transport: HttpTransport,
    path: str,
    to: Path,
    *,
    resumes: bool = True,
    timeout_s: float = math.inf,
) -> int:
    """Write what `path` answers into a new file; return its size.

    A cut download goes on with a range where `resumes` is set, else begins anew. The file has its
    name when it is whole. Raise BadConfiguration where it exists or cannot be written, WaitTimeout.
    """
    with new_file(to) as part:
        ends_at = time.monotonic() + timeout_s
        return _fetch(transport, path, part, resumes=resumes, ends_at=ends_at)


@contextmanager
def new_file(to: Path) -> Iterator[Path]:
    """Yield a path to write to, which then is that of a new file; nothing is left of a failure.

    Raise BadConfiguration where the file exists or cannot be written.
    """
    part = to.with_name(f".{to.name[:_PART_CHARACTERS]}.{os.getpid()}.part")
    try:
        _require_free(to)
        yield part
        _name(part, to)
    except FileExistsError:
        raise BadConfiguration(
            f"{to} is there already", advice="choose another name or folder"
        ) from None
    except OSError as error:
        raise BadConfiguration(f"{to} cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _name(part: Path, to: Path) -> None:
    """Give a file its name, which must be free; raise FileExistsError."""
    try:
        os.link(part, to)  # unlike a rename it replaces nothing
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        to.open("xb").close()
        part.replace(to)


def _require_free(to: Path) -> None:
    """Make the folder of a file that is not there yet; raise OSError, FileExistsError."""
    if to.exists():
        raise FileExistsError
    if not to.parent.is_dir():
        try:
            to.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError:  # a file in place of a folder
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None


def _fetch(
    transport: HttpTransport, path: str, part: Path, *, resumes: bool, ends_at: float
) -> int:
    tag = ""
    with part.open("wb") as file:
        for tries_left in reversed(range(_TRIES)):
            begin = file.tell() if resumes and tag else 0
            headers = {"Accept": "*/*"}
            if begin:
                headers |= {"Range": f"bytes={begin}-", "If-Range": tag}
            try:
                with transport.stream(path, headers=headers, idle_s=_IDLE_S) as answer:
                    if answer.status != HTTPStatus.PARTIAL_CONTENT:
                        _begin_anew(file)
                    tag = answer.headers.get("ETag", "")
                    _copy(answer, file, ends_at)
            except NoConnection:
                if not tries_left:
                    raise
                time.sleep(pause_s(_TRIES - 1 - tries_left))
            else:
                break
        return file.tell()


def _begin_anew(file: BinaryIO) -> None:
    file.seek(0)
    file.truncate()


def _copy(answer: HTTPResponse, file: BinaryIO, ends_at: float) -> None:
    """Write what is read; raise NoConnection for a body that ends too early, WaitTimeout."""
    left = answer.length
    while chunk := answer.read1(_CHUNK):
        if time.monotonic() > ends_at:
            raise WaitTimeout("the download takes too long")
        try:
            file.write(chunk)
        except OSError as error:  # not one of the connection
            raise BadConfiguration(f"{file.name} cannot be written: {error.strerror}") from None
        if left is not None:
            left -= len(chunk)
    if left:  # http.client says nothing of it
        raise NoConnection("the download was cut")
