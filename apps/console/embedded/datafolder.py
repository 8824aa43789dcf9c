"""One `up` a data folder: a file lock that dies with its process, and what others must know."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FolderInUse(RuntimeError):
    """Another `up` holds the folder; the message names its process."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold `<folder>/up.lock`; raises FolderInUse when another process has it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "up.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise FolderInUse(
                f"another `up` (process {owner}) uses {folder}: stop it, or name another folder "
                "and port: DATA_DIR=/path PORT=8190 make up"
            ) from None
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield


def remember(file: Path, *, port: int, url: str, runtime: str) -> None:
    """For other commands on this folder: the addresses of `up`, and what its steps run on."""
    scratch = file.with_suffix(".new")
    lines = f"PORT={port}\nPUBLIC_API_URL={url}\nLOCAL_RUNTIME={runtime}\n"
    scratch.write_text(lines, encoding="utf-8")
    scratch.replace(file)
