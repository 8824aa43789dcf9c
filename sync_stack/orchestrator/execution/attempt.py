"""What an attempt works with: the task as claimed, the bundle it began with, the world around."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernel import clock
from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.events import Event
from sync_stack.core.sink import Sink
from sync_stack.orchestrator.execution.heartbeat import Heartbeat
from sync_stack.orchestrator.execution.timing import Timing
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.rows import tasks
from sync_stack.orchestrator.rows.tasks import Claim
from sync_stack.repositories import Repositories, Source, TreeEntry
from sync_stack.repositories.schemas import Schemas

Resolve = Callable[[SecretRef, Mapping[str, str] | None], str]


def nobody(_task_ids: Sequence[str]) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The outside world. `jitter` gives 0.5 to 1; `publish` says that tasks may be picked up.

    `copied` is told of tasks that have changed.
    """

    bundle: Callable[[], Bundle]
    resolve: Resolve
    repositories: Repositories
    schemas: Schemas
    open_sink: Callable[[Datasource], Sink]
    publish: Callable[[Sequence[str]], None]
    jitter: Callable[[], float]
    copied: Callable[[Sequence[str]], None] = nobody


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSync:
    """One rule of a task for one of its events; done parts are not repeated."""

    rule: Rule
    event: Event
    number: int = 0

    @property
    def key(self) -> str:
        return f"{self.number}:{self.rule.name}"


@dataclass(slots=True, kw_only=True)
class Attempt:
    """`done`: what earlier attempts, and this one so far, have brought to an end, by part.

    `failing`: parts of this attempt that may pass the next time. `heads`: what each part's
    ref was when it was looked at. `coalescing`: the waiting tasks of the same ref, as they were
    before the first look.
    """

    task: Task
    mine: Claim
    beat: Heartbeat
    bundle: Bundle
    ports: Ports
    done: dict[str, dict[str, Any]] = field(default_factory=dict)
    failing: dict[str, dict[str, Any]] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)
    lags: int = 0
    coalescing: list[str] = field(default_factory=list)
    trees: dict[tuple[Source, str], Mapping[str, TreeEntry]] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)

    def approved(self, destination_id: str, env: str) -> frozenset[str]:
        """The keys of a unit that an operator has seen and let go."""
        given = self.task.request.get("approved", {})
        return frozenset(given.get(f"{destination_id}:{env}", ()))

    def tree(self, source: Source, commit: str, *, ref: str = "") -> Mapping[str, TreeEntry]:
        """The files of a commit, fetched once: what it holds never changes. Raises GitError."""
        known = self.trees.get((source, commit))
        if known is None:
            self.ports.repositories.fetch(source, commit, ref=ref)
            known = self.trees[source, commit] = self.ports.repositories.tree(source, commit)
        return known

    def now(self) -> str:
        return clock.rfc3339(clock.now())

    def stage(self, name: str, ratio: float) -> None:
        """Show where we are. Raises LostTask."""
        self.timing.enter(name)
        if not tasks.write(self.mine, progress={"stage": name, "ratio": ratio}):
            raise self.beat.refused()

    def finish_part(self, part: RuleSync, outcome: dict[str, Any]) -> None:
        """The commit point of a part (4.8 step 8): one write. Raises LostTask."""
        self.done[part.key] = outcome
        self.remember()

    def remember(self) -> None:
        if not tasks.write(self.mine, memory={"done": self.done, "lags": self.lags}):
            raise self.beat.refused()
