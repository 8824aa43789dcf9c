"""Files that are written as they come: never over another file, never half a file."""

from __future__ import annotations

import contextlib
import os
import time
from http import HTTPStatus
from http.client import HTTPResponse
from pathlib import Path
from typing import BinaryIO, Final

from partita_client.errors import BadConfiguration, NoConnection
from partita_client.transport import HttpTransport, pause_s

_CHUNK: Final = 2**18
_TRIES: Final = 6
_IDLE_S: Final = 60.0


def download_file(transport: HttpTransport, path: str, to: Path, *, resumes: bool = True) -> int:
    """Write what `path` answers into a new file; return its size.

    A cut download goes on with a range where `resumes` is set, else begins anew. The file has its
    name when it is whole. Raise BadConfiguration where it exists or cannot be written.
    """
    if to.exists():
        raise BadConfiguration(f"{to} is there already", advice="choose another name or folder")
    part = to.with_name(f".{to.name}.{os.getpid()}.part")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        size = _fetch(transport, path, part, resumes=resumes)
        os.link(part, to)  # unlike a rename it replaces nothing
    except FileExistsError:
        raise BadConfiguration(
            f"{to} is there already", advice="choose another name or folder"
        ) from None
    except OSError as error:
        raise BadConfiguration(f"{to} cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return size


def _fetch(transport: HttpTransport, path: str, part: Path, *, resumes: bool) -> int:
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
                    _copy(answer, file)
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


def _copy(answer: HTTPResponse, file: BinaryIO) -> None:
    """Write what is read; raise NoConnection for a body that ends too early."""
    left = answer.length
    while chunk := answer.read(_CHUNK):
        try:
            file.write(chunk)
        except OSError as error:  # not one of the connection
            raise BadConfiguration(f"{file.name} cannot be written: {error.strerror}") from None
        if left is not None:
            left -= len(chunk)
    if left:  # http.client says nothing of it
        raise NoConnection("the download was cut")
