"""The files of a suite, written into a folder of this machine."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Final

from worker.domain.archives import parents_of

_MODES: Final = 0o755  # no set-id bits, and nobody else writes


def write_suite_files(content: bytes, folder: Path, *, mtime: int | None = None) -> None:
    """Write the files of `content` (tar+gzip, or several one after the other) below `folder`.

    `mtime` replaces their own times. Takes files alone, by normalized relative names, as a
    container's archive does; raises ValueError for other names, and for one that leads out of
    `folder` by a link. Not by the filters of tarfile, which Python 3.11 has from 3.11.4 on.
    """
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz", ignore_zeros=True) as source:
        for member in source:
            file = source.extractfile(member) if member.isfile() else None
            if file is not None:
                path = _make_way(folder, member.name)
                path.write_bytes(file.read())
                path.chmod(member.mode & _MODES | 0o600)
                time = member.mtime if mtime is None else mtime
                os.utime(path, (time, time))


def _make_way(folder: Path, name: str) -> Path:
    """Return the path of a file, of which the folders exist and whose place is free."""
    parents_of(name)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{name!r} leads out of the folder of the suite by a link")
    path.unlink(missing_ok=True)
    return path
