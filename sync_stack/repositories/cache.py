"""The folder of bare repositories: one a URL, shared by processes, least recently used ones go."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sync_stack.repositories.program import Git, GitError, Source

_LOCK_WAIT_S: Final = 120.0
_LOCK_PAUSE_S: Final = 0.02
_MAX_PACKS: Final = 200  # one a fetch; then the entry is made anew
_USED: Final = "partita-used"


class Cache:
    """Entries are made, locked and dropped here; what is in them is git's business."""

    def __init__(self, folder: Path, *, max_entries: int) -> None:
        self._folder = folder
        self._max_entries = max_entries

    def path(self, source: Source) -> Path:
        return self._folder / f"{hashlib.sha256(source.url.encode()).hexdigest()}.git"

    @contextmanager
    def locked(self, source: Source) -> Iterator[Path]:
        """The entry, made if missing, to be fetched into by nobody else meanwhile.

        Raises GitError(git_timeout) when another process does not let go of it.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o750)
        path = self.path(source)
        with _lock(path.with_suffix(".lock")):
            if _is_worn_out(path):
                shutil.rmtree(path)
            if not (path / "HEAD").exists():
                self._make(source, path)
            (path / _USED).touch()
            yield path
        self._evict(keep=path)

    def drop(self, source: Source) -> None:
        """Forget an entry that git cannot read."""
        path = self.path(source)
        with _lock(path.with_suffix(".lock")):
            shutil.rmtree(path, ignore_errors=True)

    def _make(self, source: Source, path: Path) -> None:
        scratch = path.with_suffix(f".new-{os.getpid()}")
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.rmtree(path, ignore_errors=True)
        git = Git(source)
        git.run("init", "-q", "--bare", "--template=", "--", str(scratch))
        inside = Git(source, scratch)
        inside.run("config", "core.repositoryformatversion", "1")
        inside.run("config", "extensions.partialClone", "origin")
        inside.run("config", "remote.origin.url", source.url)
        inside.run("config", "remote.origin.promisor", "true")
        inside.run("config", "remote.origin.partialclonefilter", "blob:none")
        scratch.rename(path)

    def _evict(self, keep: Path) -> None:
        used = sorted(self._folder.glob(f"*.git/{_USED}"), key=_mtime)
        for marker in used[: max(0, len(used) - self._max_entries)]:
            path = marker.parent
            if path == keep:
                continue
            with suppress(GitError), _lock(path.with_suffix(".lock"), wait_s=0):
                shutil.rmtree(path, ignore_errors=True)


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # evicted by another process just now
        return 0.0


def _is_worn_out(path: Path) -> bool:
    try:
        return len(list((path / "objects" / "pack").glob("*.pack"))) > _MAX_PACKS
    except OSError:
        return False


@contextmanager
def _lock(path: Path, *, wait_s: float = _LOCK_WAIT_S) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
    try:
        deadline = time.monotonic() + wait_s
        while not _taken(descriptor):
            if time.monotonic() >= deadline:
                raise GitError("git_timeout", "another process holds this entry of the Git cache")
            time.sleep(_LOCK_PAUSE_S)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
