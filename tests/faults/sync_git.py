"""Real repositories, written by `git fast-import` and served by `git http-backend`, now and then
badly."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.git_server import HttpGit

GONE: Final = "0" * 40
MAIN: Final = "refs/heads/main"
_PERSON: Final = "a <a@example.org> 1700000000 +0000"


@dataclass
class FlakyGit(HttpGit):
    """A share of all requests is answered 503."""

    chance: random.Random = field(default_factory=random.Random)
    failing: float = 0.0

    def __call__(
        self, environ: dict[str, Any], start: Callable[[str, list[tuple[str, str]]], Any]
    ) -> Iterable[bytes]:
        if self.chance.random() < self.failing:
            start("503 Service Unavailable", [("Content-Length", "0")])
            return [b""]
        return super().__call__(environ, start)


@dataclass
class BareRepository:
    """`trees`: what each commit holds."""

    root: Path
    name: str
    heads: dict[str, str] = field(default_factory=dict)
    trees: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = self.root / f"{self.name}.git"
        self._git("init", "-q", "--bare", "-b", "main", str(self.folder), cwd=self.root)
        options = "[uploadpack]\n\tallowFilter = true\n\tallowAnySHA1InWant = true\n"
        with (self.folder / "config").open("a") as config:
            config.write(options + "[gc]\n\tauto = 0\n")

    def commit(self, ref: str, files: Mapping[str, str]) -> str:
        """On top of the ref, or of main; it becomes the head."""
        parent = self.heads.get(ref) or self.heads.get(MAIN, "")
        tree = {**self.trees.get(parent, {}), **files}
        lines = [
            "commit refs/made",
            f"committer {_PERSON}",
            f"data {len(message := str(len(self.trees)))}",
        ]
        lines += [message, *([f"from {parent}"] if parent else []), "deleteall"]
        for path, text in tree.items():
            lines += [f"M 100644 inline {path}", f"data {len(text.encode())}", text]
        self._git(
            "fast-import", "--quiet", "--force", "--date-format=raw", stdin="\n".join(lines) + "\n"
        )
        made = self._git("rev-parse", "refs/made")
        self.trees[made] = tree
        self.move(ref, made)
        return made

    def move(self, ref: str, commit: str) -> None:
        """Empty: the ref goes."""
        if commit:
            self._git("update-ref", ref, commit)
            self.heads[ref] = commit
        else:
            self._git("update-ref", "-d", ref)
            self.heads.pop(ref)

    def _git(self, *arguments: str, cwd: Path | None = None, stdin: str = "") -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=cwd or self.folder, input=stdin, check=True,
            capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout.strip()
