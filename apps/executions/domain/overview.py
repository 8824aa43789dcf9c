"""The engine overview: active runs and the last finished ones (reference: control-plane 16)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

FINISHED_SHOWN: Final = 200
FINISHED_FOR: Final = timedelta(hours=24)
STEP_STATUSES: Final = (
    "pending",
    "queued",
    "running",
    "healthy",
    "failed",
    "skipped",
    "canceled",
)
_RUN_COUNTS: Final = {
    "Queued": "queuedExecutions",
    "Booting": "bootingExecutions",
    "Canceling": "bootingExecutions",
    "Healthy": "healthyExecutions",
    "Failed": "failedExecutions",
    "Canceled": "canceledExecutions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFact:
    """A step as the overview shows it."""

    id: str
    name: str
    kind: str
    status: str
    level: int
    depends_on: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
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


def item(run: RunFact, summary: Mapping[str, Any], updated_at: str) -> dict[str, Any]:
    """One entry of `executions[]`: the run's wire Summary, its step counts, its progress."""
    entry = {
        **summary,
        "updatedAt": updated_at,
        **step_counts(run.counts),
        "progressRatio": progress(run.counts),
    }
    if run.is_active:
        entry["steps"] = [step.as_dict() for step in run.steps]
    return entry


def step_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """`{"pendingSteps": …, …, "canceledSteps": …}`, all seven."""
    return {f"{status}Steps": counts.get(status, 0) for status in STEP_STATUSES}


def progress(counts: Mapping[str, int]) -> float:
    """Steps neither pending nor queued, of all: 0 … 1, and 0 without steps."""
    total = sum(counts.values())
    waiting = counts.get("pending", 0) + counts.get("queued", 0)
    return round((total - waiting) / total, 4) if total else 0


def document(items: Sequence[Mapping[str, Any]], *, updated_at: str) -> dict[str, Any]:
    """The overview: `{updatedAt, summary, executions}`."""
    runs = Counter(_RUN_COUNTS[entry["status"]] for entry in items)
    steps = {
        f"{status}Steps": sum(entry[f"{status}Steps"] for entry in items)
        for status in STEP_STATUSES
    }
    summary = {
        "totalExecutions": len(items),
        **{name: runs[name] for name in dict.fromkeys(_RUN_COUNTS.values())},
        "totalSteps": sum(steps.values()),
        **steps,
    }
    return {"updatedAt": updated_at, "summary": summary, "executions": list(items)}
