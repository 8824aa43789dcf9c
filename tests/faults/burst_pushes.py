"""Pushes made beforehand: a chain of commits each, and a branch that is moved along it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.git_server import Repository
from tests.support.webhooks import ZERO, github_push, signed

SECRET: Final = "s3cret-key"
FILE: Final = "app.json"


@dataclass(frozen=True, slots=True)
class Push:
    """One webhook: the `step`-th push of its repository, which adds the key `k<step>`."""

    delivery: str
    line: Line
    step: int

    @property
    def key(self) -> str:
        return f"k{self.step}"

    def request(self) -> tuple[bytes, dict[str, str]]:
        """The same bytes and headers each time, as a redelivery has them."""
        before = self.line.commits[self.step - 1] if self.step else ZERO
        commits = [{"id": self.line.commits[self.step], "modified": [FILE]}]
        body = github_push(
            self.line.repository.name,
            before=before,
            after=self.line.commits[self.step],
            commits=commits,
        )
        return body, signed(body, secret=SECRET, delivery=self.delivery)

    def move_branch(self) -> None:
        """What `git push` does to the branch, without the price of a process."""
        ref = self.line.repository.bare / "refs" / "heads" / "main"
        lock = ref.with_name("main.lock")
        lock.write_text(self.line.commits[self.step] + "\n")
        lock.replace(ref)


@dataclass(eq=False)
class Line:
    """A repository and its commits, oldest first."""

    repository: Repository
    length: int
    commits: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        stream = b"".join(_commit(step) for step in range(self.length))
        bare = self.repository.bare
        subprocess.run(
            ["git", "fast-import", "--quiet"], cwd=bare, input=stream, check=True, timeout=60
        )
        listed = self.repository.git("rev-list", "--reverse", "refs/heads/main", cwd=bare)
        self.commits = listed.split()
        assert len(self.commits) == self.length

    def values(self, steps: int | None = None) -> dict[str, str]:
        return values_at((self.length if steps is None else steps) - 1)


def values_at(step: int) -> dict[str, str]:
    """The configuration after that push: a key for every push so far."""
    return {f"k{number}": f"v{number}" for number in range(step + 1)}


def _commit(step: int) -> bytes:
    text = json.dumps(values_at(step)).encode()
    return (
        b"commit refs/heads/main\ncommitter a <a@example.org> %d +0000\ndata 1\nc\n"
        b"M 644 inline %s\ndata %d\n%s\n" % (1_700_000_000 + step, FILE.encode(), len(text), text)
    )


def pushes(folder: Path, *, name: str, total: int, repositories: int) -> list[Push]:
    """`total` pushes that go round the repositories, in the order in which they are sent."""
    lengths = [len(range(first, total, repositories)) for first in range(repositories)]
    lines = [
        Line(Repository(folder, name=f"acme/{name}-{number}"), length)
        for number, length in enumerate(lengths)
    ]
    return [
        Push(f"{name}-{number}", lines[number % repositories], number // repositories)
        for number in range(total)
    ]
