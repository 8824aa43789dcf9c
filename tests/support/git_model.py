"""A Git repository in memory, behind the methods of `Repositories`, that remembers its heads."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sync_stack.repositories import GitError, Remote, RepositorySource, TreeEntry

MAIN = "refs/heads/main"


@dataclass
class GitModel:
    """`point` comes before every question. Time is the number of changes of heads so far."""

    point: Callable[[str], None]
    name: str = "acme/shop"
    folder: Path = Path("/model")
    heads: dict[str, str] = field(default_factory=dict)
    commits: dict[str, dict[str, str]] = field(default_factory=dict)
    past: dict[str, list[str]] = field(default_factory=dict)  # ref → heads, "" while gone

    def commit(self, ref: str, files: Mapping[str, str | None]) -> str:
        """On top of the head of `ref`, or of main where it is new; it becomes the head."""
        before: Mapping[str, str | None] = self.commits.get(
            self.heads.get(ref) or self.heads.get(MAIN, ""), {}
        )
        tree = {name: text for name, text in {**before, **files}.items() if text is not None}
        text = f"{len(self.commits)} {ref} {sorted(tree.items())}"
        made = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self.commits[made] = tree
        self.move(ref, made)
        return made

    def move(self, ref: str, commit: str) -> None:
        """Wherever it was before; empty: the ref goes."""
        if commit:
            self.heads[ref] = commit
        else:
            self.heads.pop(ref, None)
        self.past.setdefault(ref, []).append(commit)

    def ls_remote(self, _source: RepositorySource) -> Remote:
        self.point("git")
        return Remote(head_branch="main", refs=dict(self.heads))

    def fetch(self, _source: RepositorySource, commit: str, *, ref: str = "") -> None:
        self.point("git")
        if commit not in self.commits:
            raise GitError("commit_not_found", f"the remote has no commit {commit} of {ref}")

    def tree(self, _source: RepositorySource, commit: str) -> dict[str, TreeEntry]:
        paths = self.commits[commit]
        return {path: TreeEntry(path=path, mode="100644", id=f"{commit}:{path}") for path in paths}

    def read(
        self, _source: RepositorySource, commit: str, path: str, *, max_bytes: int
    ) -> bytes | None:
        assert max_bytes
        text = self.commits[commit].get(path)
        return None if text is None else text.encode()

    def content(self, _source: RepositorySource, entry: TreeEntry, *, max_bytes: int) -> bytes:
        assert max_bytes
        self.point("git")
        commit, _, path = entry.id.partition(":")
        return self.commits[commit][path].encode()

    def bring(self, _source: RepositorySource, _wanted: Iterable[TreeEntry]) -> None:
        self.point("git")

    def keep(self, _source: RepositorySource, _name: str, _commit: str) -> None:
        """It never forgets."""

    def explains(self, ref: str, applied: Iterable[str]) -> bool:
        """Whether looks at the ref, one after another, can have seen these heads in this order."""
        left = iter(["", *self.past.get(ref, ())])
        now = next(left)
        for commit in applied:
            while now != commit:
                following = next(left, None)
                if following is None:
                    return False
                now = following
        return True
