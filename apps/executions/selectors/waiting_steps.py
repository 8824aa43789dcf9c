"""Steps that wait for a supervisor, as light rows: none of it loads or locks a run.

(reference: control-plane 14.4, 15.2)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Min, Q, QuerySet

from apps.executions.domain.place_queue import Lane
from apps.executions.domain.states import ExecutionStatus, JobState
from apps.executions.models import Step
from kernel import clock

PLACED_KINDS: Final = ("task", "test")
_BY_AGE: Final = ("queued_at", "index")
_BY_RUN: Final = ("execution__started_at", *_BY_AGE)
StepKey = tuple[UUID, int]  # the run, and the index of the step


@dataclass(frozen=True, slots=True)
class WaitingStep:
    """A step that waits for a supervisor."""

    pk: UUID
    index: int
    queued_at: datetime
    kind: str
    workspace: str
    backend: str
    accepted_at: datetime

    @property
    def key(self) -> StepKey:
        return self.pk, self.index

    @property
    def takes_place(self) -> bool:
        return self.kind in PLACED_KINDS


def claimable(backends: Mapping[str, str]) -> QuerySet[Step, Step]:
    """Return the steps that wait for a supervisor of these backends (backend id → kind)."""
    return Step.objects.filter(
        Q(not_before=None) | Q(not_before__lte=clock.now()),
        job_state=JobState.PENDING.value,
        backend_id__in=list(backends),
        execution__backend_kind__in=sorted(set(backends.values())),
        execution__status=ExecutionStatus.BOOTING.value,
        execution__verdict="",
        execution__deleted_at=None,
    )


def oldest_steps(steps: QuerySet[Step, Step], limit: int) -> list[WaitingStep]:
    """Return the steps that were queued first."""
    return _read(steps, _BY_AGE, limit)


def steps_without_place(steps: QuerySet[Step, Step], limit: int) -> list[WaitingStep]:
    """Return the oldest of those that need no place."""
    return oldest_steps(steps.exclude(kind__in=PLACED_KINDS), limit)


def steps_of_lanes(
    steps: QuerySet[Step, Step], lanes: Iterable[Lane], limit: int
) -> list[WaitingStep]:
    """Return of each lane the first tasks and tests in the order of its turns; a query for each."""
    placed = steps.filter(kind__in=PLACED_KINDS)
    found: list[WaitingStep] = []
    for backend, workspace in lanes:
        of_lane = placed.filter(backend_id=backend, execution__workspace_id=UUID(workspace))
        found += _read(of_lane, _BY_RUN, limit)
    return found


def lanes_of_steps(steps: QuerySet[Step, Step]) -> dict[Lane, float]:
    """Return since when tasks and tests wait, by backend and workspace."""
    placed = steps.filter(kind__in=PLACED_KINDS).order_by()
    rows: Any = placed.values_list("backend_id", "execution__workspace_id").annotate(
        Min("queued_at")
    )
    return {(backend, str(workspace)): since.timestamp() for backend, workspace, since in rows}


def _read(steps: QuerySet[Step, Step], order: tuple[str, ...], limit: int) -> list[WaitingStep]:
    rows: Any = steps.order_by(*order).values_list(
        "execution_id", "index", "queued_at", "kind", "execution__workspace_id", "backend_id",
        "execution__started_at",
    )[:limit]  # fmt: skip
    return [
        WaitingStep(pk, number - 1, queued_at, kind, str(workspace), backend, accepted_at)
        for pk, number, queued_at, kind, workspace, backend, accepted_at in rows
    ]
