"""The archives that fill the directories of a container (reference: control-plane 14.3)."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from typing import Final

from worker.domain.exports import SUITE_FILE_MTIME
from worker.domain.runtime import ARTIFACTS, STEP_DIRECTORY, WORKSPACE

_LEVEL: Final = 1  # the content is compressed already as far as it pays


def step_archive(content: bytes, *, shared: bytes | None = None) -> bytes:
    """Return the directories of one attempt as a tar for `/`: that with the files, and artifacts.

    `content` (tar+gzip) is the step's own; empty, it gives an empty directory. With `shared`, the
    shared directory is there too, with these files. Everything is open to every user of any image.
    Takes files and folders only, by normalized relative names; raises ValueError for other names.
    """
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as target:
        _add_step(target, content)
        if shared is not None:
            _add_files(target, shared, WORKSPACE)
    return out.getvalue()


def unit_archive(content: bytes, step_content: bytes, changes: Sequence[bytes] = ()) -> bytes:
    """Return all directories of a unit as one tar+gzip: its own, and the shared one.

    `changes` (tar+gzip each) are what earlier steps wrote to the shared directory; the later win.
    """
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=_LEVEL) as target:
        _add_step(target, step_content)
        target.addfile(_folder(WORKSPACE))
        for each in filter(None, (content, *changes)):
            _add_files(target, each, WORKSPACE)
    return out.getvalue()


def _add_step(target: tarfile.TarFile, content: bytes) -> None:
    target.addfile(_folder(ARTIFACTS))
    _add_files(target, content, STEP_DIRECTORY, mtime=SUITE_FILE_MTIME)


def _add_files(
    target: tarfile.TarFile, content: bytes, root: str, *, mtime: int | None = None
) -> None:
    """Add `root` and the files of a suite below it; `mtime` replaces their own times.

    The content may be empty, or several archives one after the other.
    """
    target.addfile(_folder(root))
    if not content:
        return
    folders: set[str] = set()
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz", ignore_zeros=True) as source:
        for member in source:
            if member.isfile():
                for folder in parents_of(member.name):
                    if folder not in folders:
                        folders.add(folder)
                        target.addfile(_folder(f"{root}/{folder}"))
                info = tarfile.TarInfo(f"{root}/{member.name}".removeprefix("/"))
                info.size, info.mode = member.size, member.mode | 0o666
                info.mtime = member.mtime if mtime is None else mtime
                target.addfile(info, source.extractfile(member))


def parents_of(name: str) -> list[str]:
    """Return the folders that a file needs, the outermost first; raise ValueError."""
    parts = name.removeprefix("./").split("/")
    if name.startswith("/") or ".." in parts:
        raise ValueError(f"{name!r} is not a path inside a suite")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _folder(path: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path.removeprefix("/"))
    info.type, info.mode = tarfile.DIRTYPE, 0o777
    return info
