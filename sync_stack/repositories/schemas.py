"""Schemas of configuration files, read from the repository that keeps them.

(reference: sync-stack 4.6)
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sync_stack.core.shaping.schema import Schema, find_schema
from sync_stack.repositories.entry import TreeEntry
from sync_stack.repositories.git import Repositories
from sync_stack.repositories.program import GitError, RepositorySource

MAX_SCHEMA_BYTES: Final = 2**20
_SKEW_S: Final = 5.0  # a file system's clock may run ahead of ours


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryFolder:
    """A folder at the head of a branch; `path` is empty for the top of the repository."""

    source: RepositorySource
    branch: str
    path: str = ""

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.branch}"

    @property
    def name(self) -> str:
        return hashlib.sha256(f"{self.source.url}\n{self.branch}".encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSchemas:
    """The schemas of one commit of a registry, by name; each is read when it is asked for."""

    read: Callable[[TreeEntry], bytes]
    entries: Mapping[str, TreeEntry]
    cue_binary: str = ""

    def schema_of(self, file: str, *, central_file: str = "") -> Schema | None:
        """None when the registry has none for the file. Raises GitError."""
        name = find_schema(file, self.entries.keys(), central_file=central_file)
        if name is None:
            return None
        try:
            text = self.read(self.entries[name]).decode()
            return Schema(file=name, text=text, cue_binary=self.cue_binary)
        except UnicodeDecodeError:
            raise GitError("parse_error", "the schema is not UTF-8", file=name) from None


class Schemas:
    """Which commit is the registry's head is asked every `ttl_s`, and after a push to it.

    `folder` is shared: what one process was told counts for all that see the same folder.
    """

    def __init__(
        self,
        folder: Path,
        *,
        ttl_s: float,
        allow_file: bool = False,
        cue_binary: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._heads = folder / "heads"
        self._repositories = Repositories(folder / "git", allow_file=allow_file)
        self._ttl_s = ttl_s
        self._cue_binary = cue_binary
        self._clock = clock

    def at_head(self, registry: RegistryFolder) -> CommitSchemas:
        """Return the schemas of the registry's head; raise GitError if it cannot be read now."""
        commit = self._known_commit(registry) or self.refresh(registry)
        tree = self._repositories.tree(registry.source, commit)
        prefix = f"{registry.path}/" if registry.path else ""
        entries = {
            path.removeprefix(prefix): entry
            for path, entry in tree.items()
            if path.startswith(prefix) and "/" not in path[len(prefix) :] and entry.is_file
        }
        return CommitSchemas(
            read=lambda entry: self._repositories.content(
                registry.source, entry, max_bytes=MAX_SCHEMA_BYTES
            ),
            entries=entries,
            cue_binary=self._cue_binary,
        )

    def refresh(self, registry: RegistryFolder) -> str:
        """The head as it is now, fetched, for everybody. Raises GitError."""
        remote = self._repositories.ls_remote(registry.source)
        commit = remote.refs.get(registry.ref, "")
        if not commit:
            raise GitError("commit_not_found", f"the registry has no branch {registry.branch!r}")
        self._repositories.fetch(registry.source, commit, ref=registry.ref)
        self._remember(registry, commit)
        return commit

    def _known_commit(self, registry: RegistryFolder) -> str:
        path = self._heads / registry.name
        try:
            age = self._clock() - path.stat().st_mtime
            commit = path.read_text(encoding="ascii")
        except (OSError, ValueError):
            return ""
        fresh = -_SKEW_S <= age < self._ttl_s
        return commit if fresh and self._repositories.has(registry.source, commit) else ""

    def _remember(self, registry: RegistryFolder, commit: str) -> None:
        self._heads.mkdir(parents=True, exist_ok=True, mode=0o750)
        scratch = self._heads / f".{registry.name}.{os.getpid()}.{time.monotonic_ns()}"
        scratch.write_text(commit, encoding="ascii")
        scratch.replace(self._heads / registry.name)
