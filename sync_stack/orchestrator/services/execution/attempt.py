"""An attempt at a task: what it works with, and how long its stages took."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from kernel import clock, telemetry
from kernel.telemetry import FinishedSpan
from kernel.trace_context import TraceContext, new_span, parse_traceparent
from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.events import Event
from sync_stack.core.sink import Sink
from sync_stack.core.tasks import TERMINAL, State, TaskKind
from sync_stack.orchestrator.domain.identity import Claim
from sync_stack.orchestrator.domain.task_documents import (
    RuleSyncOutcome,
    TaskMemory,
    TaskRequest,
)
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.services import counters, task_transitions
from sync_stack.orchestrator.services.execution.claim_heartbeat import GuardedSink, Heartbeat
from sync_stack.repositories import Repositories, RepositorySource, TreeEntry
from sync_stack.repositories.schemas import Schemas

_FIRST: Final = "git"
Resolve = Callable[[SecretRef, Mapping[str, str] | None], str]


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    started_at: datetime
    seconds: float


class StageTiming:
    """`state` is the state of the task after the attempt, `error` the code of its failure.

    `span` is that of the attempt, a child of the task's.
    """

    def __init__(self, traceparent: str = "") -> None:
        self._parent = parse_traceparent(traceparent)
        self.span = new_span(below=self._parent)
        self.stages: list[Stage] = []
        self.state: State | None = None
        self.error = ""
        self.started_at = clock.now()
        self._begun = time.perf_counter()
        self._open = (_FIRST, self.started_at, self._begun)

    def enter(self, name: str) -> None:
        """End the current stage and begin another; nothing changes if it is the same."""
        if name != self._open[0]:
            self._leave()
            self._open = (name, clock.now(), time.perf_counter())

    def record(self, task: Task) -> None:
        """Count and trace the stages, once, after the attempt; errors of the store are logged."""
        self._leave()
        self._count(task)
        if telemetry.is_configured():
            self._trace(task)

    def _leave(self) -> None:
        name, started_at, begun = self._open
        self.stages.append(Stage(name, started_at, time.perf_counter() - begun))

    def _count(self, task: Task) -> None:
        for stage in self.stages:
            counters.observe(counters.STAGE_SECONDS, stage.seconds, stage=stage.name)
        if self.state in TERMINAL:
            taken = clock.now() - (task.started_at or task.created_at)
            counters.observe(counters.TASK_SECONDS, taken.total_seconds(), kind=task.kind)

    def _trace(self, task: Task) -> None:
        """Record the span of the attempt, and one for each stage."""
        telemetry.record(
            FinishedSpan(
                name="sync.task",
                context=self.span,
                parent_id=self._parent.span_id if self._parent else "",
                started_at=self.started_at,
                ended_at=_after(self.started_at, time.perf_counter() - self._begun),
                attributes={
                    "sync.task_id": task.id,
                    "sync.task_kind": task.kind,
                    "sync.attempt": task.attempt,
                    "sync.state": str(self.state or "lost"),
                },
                error=self.error,
            )
        )
        for stage in self.stages:
            _trace_stage(stage, self.span)


def _trace_stage(stage: Stage, attempt: TraceContext) -> None:
    telemetry.record(
        FinishedSpan(
            name=f"sync.{stage.name}",
            context=new_span(below=attempt),
            parent_id=attempt.span_id,
            started_at=stage.started_at,
            ended_at=_after(stage.started_at, stage.seconds),
            attributes={},
        )
    )


def _after(instant: datetime, seconds: float) -> datetime:
    return instant + timedelta(seconds=seconds)


def ignore_changes(_task_ids: Sequence[str]) -> None:
    """Ignore which tasks have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What attempts reach outside the store. `jitter` returns 0.5 to 1.

    `publish` gets ids of tasks that may be claimed, `task_changed` those of tasks that changed.
    """

    bundle: Callable[[], Bundle]
    resolve: Resolve
    repositories: Repositories
    schemas: Schemas
    open_sink: Callable[[Datasource], Sink]
    publish: Callable[[Sequence[str]], None]
    jitter: Callable[[], float]
    task_changed: Callable[[Sequence[str]], None] = ignore_changes


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSync:
    """One rule of a task for one of its events; one that has ended is not repeated."""

    rule: Rule
    event: Event
    number: int = 0

    @property
    def key(self) -> str:
        return f"{self.number}:{self.rule.name}"


@dataclass(slots=True, kw_only=True)
class Attempt:
    """`done`: outcomes of rule syncs that earlier attempts or this one have ended, by key.

    `failing`: outcomes of this attempt that the next one may improve. `heads`: the commit of each
    ref when it was read. `supersedable`: the waiting tasks of the same ref, as they were before
    it was read.
    """

    task: Task
    claim: Claim
    heartbeat: Heartbeat
    bundle: Bundle
    ports: Ports
    request: TaskRequest = field(default_factory=TaskRequest)
    done: dict[str, RuleSyncOutcome] = field(default_factory=dict)
    failing: dict[str, RuleSyncOutcome] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)
    lags: int = 0
    supersedable: list[str] = field(default_factory=list)
    trees: dict[tuple[RepositorySource, str], Mapping[str, TreeEntry]] = field(default_factory=dict)
    timing: StageTiming = field(default_factory=StageTiming)

    @property
    def follows_ref(self) -> bool:
        """Return whether the task syncs the heads of its refs; a heal and a purge do not."""
        return self.task.kind != TaskKind.HEAL and not self.request.purge

    def open_sink(self, datasource: str) -> GuardedSink:
        """Open the sink of a datasource of the bundle. Raises SinkError, SecretError."""
        return GuardedSink(self.ports.open_sink(self.bundle.datasource(datasource)), self.heartbeat)

    def approved_keys(self, destination_id: str, env: str) -> frozenset[str]:
        """Return the keys of a target whose deletion an operator has approved."""
        return frozenset(self.request.approved.get(f"{destination_id}:{env}", ()))

    def tree(
        self, source: RepositorySource, commit: str, *, ref: str = ""
    ) -> Mapping[str, TreeEntry]:
        """Return the files of a commit, which is fetched once. Raises GitError."""
        known = self.trees.get((source, commit))
        if known is None:
            self.ports.repositories.fetch(source, commit, ref=ref)
            known = self.trees[source, commit] = self.ports.repositories.tree(source, commit)
        return known

    def now(self) -> str:
        return clock.rfc3339(clock.now())

    def stage(self, name: str, ratio: float) -> None:
        """Store the stage as progress. Raises LostTask."""
        self.timing.enter(name)
        if not task_transitions.write(self.claim, progress={"stage": name, "ratio": ratio}):
            raise self.heartbeat.note_refusal()

    def finish_rule_sync(self, sync: RuleSync, outcome: RuleSyncOutcome) -> RuleSyncOutcome:
        """Commit a rule sync in one write (sync-stack 4.8, step 8). Raises LostTask."""
        self.done[sync.key] = outcome
        self.save_memory()
        return outcome

    def memory(self) -> dict[str, object]:
        """Return what the next attempt needs, as the task stores it."""
        return TaskMemory(done=self.done, lags=self.lags).as_json()

    def save_memory(self) -> None:
        if not task_transitions.write(self.claim, memory=self.memory()):
            raise self.heartbeat.note_refusal()
