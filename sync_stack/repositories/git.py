"""Files of repositories at one commit, and the folder of bare repositories that they come from.

The folder holds one repository a URL. Processes share it; those not used for longest go first.

(reference: sync-stack 4.4)
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from sync_stack.repositories.entry import (
    TreeEntry,
    check_path,
    entries,
    readable,
    refuse_pointer,
)
from sync_stack.repositories.program import Git, GitError, RepositorySource

_LOCK_WAIT_S: Final = 120.0
_LOCK_PAUSE_S: Final = 0.02
_MAX_PACKS: Final = 200  # one a fetch; then the entry is made anew
_USED: Final = "partita-used"


class Cache:
    """Entries are made, locked and dropped here; what is in them is git's business."""

    def __init__(self, folder: Path, *, max_entries: int) -> None:
        self._folder = folder
        self._max_entries = max_entries

    def path(self, source: RepositorySource) -> Path:
        return self._folder / f"{hashlib.sha256(source.url.encode()).hexdigest()}.git"

    @contextmanager
    def lock_entry(self, source: RepositorySource) -> Iterator[Path]:
        """Lock the entry, made if missing, and yield its path: no other process fetches into it.

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

    def drop(self, source: RepositorySource) -> None:
        """Forget an entry that git cannot read."""
        path = self.path(source)
        with _lock(path.with_suffix(".lock")):
            shutil.rmtree(path, ignore_errors=True)

    def _make(self, source: RepositorySource, path: Path) -> None:
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
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                raise GitError("git_timeout", "another process holds this entry of the Git cache")
            time.sleep(_LOCK_PAUSE_S)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


T = TypeVar("T")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_BLAMED: Final = 500
_DEEPEN: Final = (50, 500, 5000, 100_000)
_CORRUPT: Final = re.compile(
    r"corrupt|bad object|not a git repository|unable to read|loose object|invalid sha1 pointer"
    r"|pack has|could not parse|garbage"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """What the remote says of itself: ref → commit (tags peeled); `head_branch` may be empty."""

    head_branch: str
    refs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Signature:
    """Who wrote a commit, when (RFC 3339), and its first line."""

    commit: str
    name: str
    email: str
    at: str
    subject: str


class Repositories:
    """Reads from any number of repositories; shared by threads and, through the disk, processes.

    `allow_file`: whether `file://` may be read, which production never does. `on_fetch` is told
    how many seconds a question to the remote for content took, and whether it was answered.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_entries: int = 200,
        allow_file: bool = False,
        on_fetch: Callable[[float, bool], None] = lambda _seconds, _ok: None,
    ) -> None:
        self._on_fetch = on_fetch
        self._cache = Cache(folder, max_entries=max_entries)
        self._schemes = {"https", "http", "ssh"} | ({"file"} if allow_file else set())

    def ls_remote(self, source: RepositorySource) -> Remote:
        """List the refs of the remote by one call; raise GitError."""
        self._check(source)
        text = Git(source).run("ls-remote", "--symref", "--", source.url).decode(errors="replace")
        return _remote(text)

    def fetch(self, source: RepositorySource, commit: str, *, ref: str = "") -> None:
        """Make the commit readable: it alone, or, where the server refuses, by way of its ref.

        Raises GitError; commit_not_found when the remote has it no more.
        """
        self._check(source)
        _check_commit(commit)
        self._surely(source, lambda: self._fetch(source, commit, ref))

    def tree(self, source: RepositorySource, commit: str) -> dict[str, TreeEntry]:
        """Path → entry, of the whole commit, which must have been fetched."""
        _check_commit(commit)
        listing = self._inside(source).run("ls-tree", "-r", "-z", "--full-tree", commit)
        return entries(listing)

    def read(
        self, source: RepositorySource, commit: str, path: str, *, max_bytes: int
    ) -> bytes | None:
        """A regular file's content at the commit; None without such a path. Raises GitError."""
        entry = readable(self.tree(source, commit), path)
        return None if entry is None else self.content(source, entry, max_bytes=max_bytes)

    def content(self, source: RepositorySource, entry: TreeEntry, *, max_bytes: int) -> bytes:
        """Raises GitError: file_too_large, lfs_pointer, and what fetching it may end in."""
        try:
            found = self._inside(source).run("cat-file", "blob", entry.id, limit=max_bytes)
        except GitError as error:
            raise GitError(error.code, error.detail, file=entry.path) from None
        refuse_pointer(found, entry.path)
        return found

    def bring(self, source: RepositorySource, wanted: Iterable[TreeEntry]) -> None:
        """Fetch the contents of several entries at once instead of one by one."""
        names = {entry.id for entry in wanted}
        missing = self._missing(source, names) if len(names) > 1 else []
        if len(missing) > 1:
            with self._cache.lock_entry(source) as path:
                stdin = "\n".join(missing).encode() + b"\n"
                self._fetch_into(source, path, "--stdin", "origin", stdin=stdin)

    def keep(self, source: RepositorySource, name: str, commit: str) -> None:
        """A private ref: the commit stays in the cache as long as the entry does."""
        _check_commit(commit)
        if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", name):
            raise ValueError(f"{name!r} is not a name of a private ref")
        self._inside(source).run("update-ref", f"refs/partita/{name}", commit)

    def read_signature(self, source: RepositorySource, commit: str) -> Signature:
        """Return the author and subject of a fetched commit. Raises GitError."""
        _check_commit(commit)
        form = "--format=%H%x00%an%x00%ae%x00%aI%x00%s"
        text = self._inside(source).run("log", "-1", form, commit, "--", offline=True)
        return Signature(*text.decode(errors="replace").rstrip("\n").split("\0", 4))

    def origin_of_line(
        self, source: RepositorySource, commit: str, path: str, line: int, *, ref: str
    ) -> str:
        """The commit that last changed a line, as far back as 500 commits. Raises GitError."""
        _check_commit(commit)
        check_path(path)
        with self._cache.lock_entry(source) as folder:
            Git(source, folder).run("check-ref-format", ref)
            self._fetch_into(source, folder, f"--depth={_BLAMED}", "origin", ref)
        given = ("--porcelain", f"-L{line},{line}", commit, "--", path)
        return self._inside(source).run("blame", *given).split(b" ", 1)[0].decode()

    def has(self, source: RepositorySource, commit: str) -> bool:
        path = self._cache.path(source)
        return (path / "HEAD").exists() and _has(Git(source, path), commit)

    def _fetch(self, source: RepositorySource, commit: str, ref: str) -> None:
        with self._cache.lock_entry(source) as path:
            git = Git(source, path)
            if _has(git, commit):
                return
            try:
                self._fetch_into(source, path, "--depth=1", "origin", commit)
            except GitError as error:
                if error.code != "commit_not_found" or not ref:
                    raise
                self._deepen(source, path, commit, ref)
            if not _has(git, commit):
                raise GitError("commit_not_found", f"the remote has no commit {commit}")

    def _deepen(self, source: RepositorySource, path: Path, commit: str, ref: str) -> None:
        """The server gives refs only: its history, further and further back."""
        git = Git(source, path)
        git.run("check-ref-format", ref)
        for depth in _DEEPEN:
            self._fetch_into(source, path, f"--depth={depth}", "origin", ref)
            if _has(git, commit):
                return
        raise GitError("commit_not_found", f"{ref} does not lead to {commit}")

    def _fetch_into(
        self, source: RepositorySource, path: Path, *arguments: str, stdin: bytes = b""
    ) -> None:
        options = ("--quiet", "--force", "--no-tags", "--no-write-fetch-head", "--filter=blob:none")
        without_haves = ("-c", "fetch.negotiationAlgorithm=noop")
        begun, ok = time.perf_counter(), False
        try:
            Git(source, path).run(*without_haves, "fetch", *options, *arguments, stdin=stdin)
            ok = True
        finally:
            self._on_fetch(time.perf_counter() - begun, ok)

    def _missing(self, source: RepositorySource, names: set[str]) -> list[str]:
        """Return those whose content is not in the cache; ask nobody."""
        every = ("cat-file", "--batch-all-objects", "--batch-check=%(objectname)", "--unordered")
        output = self._inside(source).run(*every, offline=True)
        return sorted(names - set(output.decode().split()))

    def _inside(self, source: RepositorySource) -> Git:
        self._check(source)
        return Git(source, self._cache.path(source))

    def _surely(self, source: RepositorySource, act: Callable[[], T]) -> T:
        """A corrupt entry is dropped and made again, once."""
        try:
            return act()
        except GitError as error:
            if not _CORRUPT.search(error.detail.lower()):
                raise
            self._cache.drop(source)
            return act()

    def _check(self, source: RepositorySource) -> None:
        if source.scheme not in self._schemes:
            raise GitError("repository_not_found", f"{source.scheme or 'no'} URLs are not read")


def _check_commit(commit: str) -> None:
    if not _COMMIT.match(commit):
        raise GitError("commit_not_found", f"{commit[:80]!r} is not a commit id")


def _has(git: Git, commit: str) -> bool:
    """Whether the cache holds the commit; never asks the remote for it."""
    # Not cat-file: it starts a fetch of what is missing, and SIGPIPE ends it when that fails first.
    look = ("rev-list", "--missing=allow-any", "--ignore-missing", "--no-walk", commit)
    return git.run(*look, offline=True).decode().strip() == commit


def _remote(text: str) -> Remote:
    head, refs = "", {}
    for line in text.splitlines():
        name, _, ref = line.partition("\t")
        if name.startswith("ref: "):
            head = name.removeprefix("ref: refs/heads/") if ref == "HEAD" else head
        elif ref.endswith("^{}"):
            refs[ref.removesuffix("^{}")] = name
        elif ref and ref != "HEAD":
            refs[ref] = name
    return Remote(head_branch=head, refs=refs)
