"""An attempt at a task: its heartbeat, what it works with, and how long its stages took.

No sink is used without a recent heartbeat (reference: sync-stack 4.8).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import TracebackType
from typing import Final, Protocol

from django.db import Error as StoreError
from django.db import close_old_connections, connection

from kernel import clock, telemetry
from kernel.background import BackgroundThread, one_cycle, report_error
from kernel.telemetry import FinishedSpan
from kernel.trace_context import TraceContext, new_span, parse_traceparent
from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.events import Effect, Event
from sync_stack.core.sink import (
    Capabilities,
    Delete,
    Destination,
    Live,
    Owner,
    Put,
    Sink,
    TargetMarker,
    TargetPlace,
    batches,
)
from sync_stack.core.tasks import TERMINAL, State, TaskError, TaskKind
from sync_stack.orchestrator.domain.identity import Claim
from sync_stack.orchestrator.domain.task_documents import (
    RuleSyncOutcome,
    TaskMemory,
    TaskRequest,
)
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.services import counters, task_transitions
from sync_stack.repositories import Repositories, RepositorySource, TreeEntry
from sync_stack.repositories.schemas import Schemas

log: Final = logging.getLogger(__name__)
HEARTBEAT_S: Final = 5.0
TRUST_S: Final = 15.0  # since the start of the last accepted heartbeat
LIMIT_S: Final = 300.0
LAST_HEARTBEAT_S: Final = 320.0
_FIRST: Final = "git"
Resolve = Callable[[SecretRef, Mapping[str, str] | None], str]


class Stopping(Protocol):
    """An event of threads or of processes that is set at shutdown."""

    def is_set(self) -> bool: ...


class LostTask(Exception):
    """The claim was lost: nothing more may be written for the task, nor restored."""


class Heartbeat:
    """Raise the heartbeat of a claimed task from a thread of its own while the attempt runs.

    `check` precedes every sink operation. A restore may exceed the time limit, but ends when the
    claim is lost.
    """

    def __init__(self, claim: Claim, *, begun: float, stopping: Stopping | None = None) -> None:
        self._mine = claim
        self._stopping = stopping
        self._started = self._last = begun
        self._refused = False
        self._end = threading.Event()
        self._thread = BackgroundThread(
            "beat",
            self._run,
            ended=self._end,
            after_failure=close_old_connections,
            title=f"beat-{claim.task_id}",
            longest_pause_s=HEARTBEAT_S,
        )
        self.restoring = False

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()

    def check(self) -> None:
        """Raise LostTask, or TaskError at the time limit or when the worker shuts down."""
        now = time.monotonic()
        if self._refused or now - self._last > TRUST_S:
            raise LostTask(self._mine.task_id)
        if self.restoring:
            return
        if now - self._started > LIMIT_S:
            raise TaskError("time_limit", f"the attempt did not end within {LIMIT_S:g} s")
        if self._stopping is not None and self._stopping.is_set():
            raise TaskError("worker_lost", "the worker is shutting down", uncounted=True)

    def note_refusal(self) -> LostTask:
        """Note that a conditional write of the task row was refused; return the error to raise."""
        self._refused = True
        return LostTask(self._mine.task_id)

    def _run(self) -> None:
        try:
            while not self._end.wait(HEARTBEAT_S) and not self._refused:
                begun = time.monotonic()
                if begun - self._started > LAST_HEARTBEAT_S:
                    return
                with one_cycle():
                    self._beat(begun)
        finally:
            connection.close()

    def _beat(self, begun: float) -> None:
        close_old_connections()
        try:
            taken = task_transitions.record_heartbeat(self._mine)
        except StoreError as error:
            log.warning("no heartbeat for task %s: %s", self._mine.task_id, type(error).__name__)
            report_error()
            return
        if taken:
            self._last = begun
        else:
            self._refused = True


class GuardedSink:
    """A sink that checks the heartbeat before each operation, of as much as it takes at once."""

    def __init__(self, sink: Sink, heartbeat: Heartbeat) -> None:
        self._sink = sink
        self._beat = heartbeat

    @property
    def capabilities(self) -> Capabilities:
        return self._sink.capabilities

    def destination(self, place: TargetPlace) -> Destination:
        return self._sink.destination(place)

    def record(self, place: TargetPlace, destination: Destination, key: str, file: str) -> str:
        return self._sink.record(place, destination, key, file)

    def read(self, destination: Destination, owner: Owner, records: Collection[str]) -> Live:
        self._beat.check()
        return self._sink.read(destination, owner, records)

    def write(self, destination: Destination, puts: Sequence[Put], marker: TargetMarker) -> None:
        for batch in batches(puts, self.capabilities):
            self._beat.check()
            self._sink.write(destination, batch, marker)

    def delete(
        self, destination: Destination, deletes: Sequence[Delete], owner: Owner, generation: int
    ) -> None:
        for batch in batches(deletes, self.capabilities):
            self._beat.check()
            self._sink.delete(destination, batch, owner, generation)

    def fence(self, destination: Destination, owner: Owner, generation: int) -> None:
        self._beat.check()
        self._sink.fence(destination, owner, generation)

    def close(self) -> None:
        """Do nothing: the sink belongs to the process."""


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
    """One rule of a task for one of its events; one that has ended is not repeated.

    `effect`: what the event asks for. `digest`: of the rule, as `rule_digest` makes it.
    """

    rule: Rule
    event: Event
    number: int = 0
    effect: Effect = Effect.SYNC
    digest: str = ""

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
