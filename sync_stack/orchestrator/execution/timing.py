"""How long the stages of an attempt took: for metrics, and for the trace of its delivery."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from kernel import clock, telemetry
from kernel.telemetry import FinishedSpan
from kernel.trace_context import TraceContext, new_span, parse_traceparent
from sync_stack.core.tasks import TERMINAL, State
from sync_stack.orchestrator import counters
from sync_stack.orchestrator.models import Task

_FIRST: Final = "git"


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    started_at: datetime
    seconds: float


class Timing:
    """`state` is what the attempt made of the task, `error` the code of its failure, if it did."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.state: State | None = None
        self.error = ""
        self.started_at = clock.now()
        self._begun = time.perf_counter()
        self._open = (_FIRST, self.started_at, self._begun)

    def enter(self, name: str) -> None:
        """The stage before it is over; to enter the one that goes on changes nothing."""
        if name != self._open[0]:
            self._leave()
            self._open = (name, clock.now(), time.perf_counter())

    def tell(self, task: Task) -> None:
        """At the end of the attempt, once. A store that fails costs the figures only."""
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
        """A span of the attempt below the one that the task came from; its stages below it."""
        parent = parse_traceparent(task.traceparent)
        mine = new_span(below=parent)
        telemetry.record(
            FinishedSpan(
                name="sync.task",
                context=mine,
                parent_id=parent.span_id if parent else "",
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
            _trace_stage(stage, mine)


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
