"""The engine overview: active runs and the last finished ones (reference: control-plane 16)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict

from apps.executions.domain.runs import RunSummary

FINISHED_SHOWN: Final = 200
FINISHED_FOR: Final = timedelta(hours=24)
_RUN_COUNTS: Final = {
    "Queued": "queuedExecutions",
    "Booting": "bootingExecutions",
    "Canceling": "bootingExecutions",
    "Healthy": "healthyExecutions",
    "Failed": "failedExecutions",
    "Canceled": "canceledExecutions",
}


class OverviewStepBody(TypedDict):
    id: str
    name: str
    kind: str
    status: str
    level: int
    dependsOn: list[str]


class StepCountsBody(TypedDict):
    pendingSteps: int
    queuedSteps: int
    runningSteps: int
    healthySteps: int
    failedSteps: int
    skippedSteps: int
    canceledSteps: int


class ActiveSteps(TypedDict, total=False):
    """The steps of a run; absent once it is finished."""

    steps: list[OverviewStepBody]


class OverviewItemBody(RunSummary, StepCountsBody, ActiveSteps):
    """A run in the overview, as on the wire."""

    updatedAt: str
    progressRatio: float


class OverviewBody(TypedDict):
    updatedAt: str
    summary: Mapping[str, int]
    executions: list[OverviewItemBody]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFact:
    """A step as the overview shows it."""

    id: str
    name: str
    kind: str
    status: str
    level: int
    depends_on: tuple[str, ...]

    def as_dict(self) -> OverviewStepBody:
        return {
            "id": self.id,
            "name": self.name,
            "kind": self.kind,
            "status": self.status,
            "level": self.level,
            "dependsOn": list(self.depends_on),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFact:
    """A run in the overview's memory; `counts` has a number for each step status that occurs."""

    id: str
    workspace_id: str
    accepted_at: datetime
    finished_at: datetime | None
    counts: Mapping[str, int]
    steps: tuple[StepFact, ...]  # empty once finished

    @property
    def is_active(self) -> bool:
        return self.finished_at is None


def shown(
    runs: Iterable[RunFact], *, workspaces: Set[str] | None, now: datetime
) -> tuple[RunFact, ...]:
    """The runs of some workspaces (None: of all), newest first.

    Every active one, and of the finished ones the last 200 of 24 hours.
    """
    scope = [run for run in runs if workspaces is None or run.workspace_id in workspaces]
    recent = [
        run for run in scope if run.finished_at is not None and run.finished_at > now - FINISHED_FOR
    ]
    recent.sort(key=lambda run: (run.finished_at, run.id), reverse=True)
    active = [run for run in scope if run.is_active]
    return tuple(
        sorted(
            active + recent[:FINISHED_SHOWN],
            key=lambda run: (run.accepted_at, run.id),
            reverse=True,
        )
    )


def item(run: RunFact, summary: RunSummary, updated_at: str) -> OverviewItemBody:
    """One entry of `executions[]`: the run's wire Summary, its step counts, its progress."""
    active: ActiveSteps = {"steps": [step.as_dict() for step in run.steps]} if run.is_active else {}
    return {
        **summary,
        "updatedAt": updated_at,
        **step_counts(run.counts),
        "progressRatio": progress(run.counts),
        **active,
    }


def step_counts(counts: Mapping[str, int]) -> StepCountsBody:
    return {
        "pendingSteps": counts.get("pending", 0),
        "queuedSteps": counts.get("queued", 0),
        "runningSteps": counts.get("running", 0),
        "healthySteps": counts.get("healthy", 0),
        "failedSteps": counts.get("failed", 0),
        "skippedSteps": counts.get("skipped", 0),
        "canceledSteps": counts.get("canceled", 0),
    }


def progress(counts: Mapping[str, int]) -> float:
    """Steps neither pending nor queued, of all: 0 … 1, and 0 without steps."""
    total = sum(counts.values())
    waiting = counts.get("pending", 0) + counts.get("queued", 0)
    return round((total - waiting) / total, 4) if total else 0


def document(items: Sequence[OverviewItemBody], *, updated_at: str) -> OverviewBody:
    """The overview: `{updatedAt, summary, executions}`."""
    counted: Sequence[Mapping[str, Any]] = items
    runs = Counter(_RUN_COUNTS[entry["status"]] for entry in items)
    steps = {name: sum(entry[name] for entry in counted) for name in StepCountsBody.__annotations__}
    summary = {
        "totalExecutions": len(items),
        **{name: runs[name] for name in dict.fromkeys(_RUN_COUNTS.values())},
        "totalSteps": sum(steps.values()),
        **steps,
    }
    return {"updatedAt": updated_at, "summary": summary, "executions": list(items)}
