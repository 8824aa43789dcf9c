"""How all steps of a run stand, as one letter each: what planners read, in the run's own row.

The letters say no more than the step rows, and are written with them; a planner that reads one
text instead of a thousand rows takes as long for a large run as for a small one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apps.executions.domain.states import JobState, StepStatus

PENDING: Final = "p"
PENDING_AGAIN: Final = "P"  # reset: it started or was skipped before
QUEUED: Final = "q"
QUEUED_AGAIN: Final = "Q"  # between two attempts
RUNNING: Final = "r"
HEALTHY_AND_HELD: Final = "H"  # a service whose supervisor still has it
NOT_SELECTED: Final = "n"  # skipped, and satisfies its dependents

STATUS_OF: Final[dict[str, StepStatus]] = {
    PENDING: StepStatus.PENDING,
    PENDING_AGAIN: StepStatus.PENDING,
    QUEUED: StepStatus.QUEUED,
    QUEUED_AGAIN: StepStatus.QUEUED,
    RUNNING: StepStatus.RUNNING,
    "h": StepStatus.HEALTHY,
    HEALTHY_AND_HELD: StepStatus.HEALTHY,
    "f": StepStatus.FAILED,
    "s": StepStatus.SKIPPED,
    NOT_SELECTED: StepStatus.SKIPPED,
    "c": StepStatus.CANCELED,
}
JOB_OF: Final[dict[str, JobState]] = {
    PENDING: JobState.NONE,
    PENDING_AGAIN: JobState.NONE,
    QUEUED: JobState.PENDING,
    QUEUED_AGAIN: JobState.PENDING,
    RUNNING: JobState.RUNNING,
    "h": JobState.SUCCEEDED,
    HEALTHY_AND_HELD: JobState.RUNNING,
    "f": JobState.FAILED,
    "s": JobState.NONE,
    NOT_SELECTED: JobState.NONE,
    "c": JobState.CANCELED,
}


def letter(status: StepStatus, job: JobState, *, attempt: int, repeats: bool = False) -> str:
    """Return the letter of a step; `repeats`: events of it may come a second time."""
    if status is StepStatus.PENDING and (attempt or repeats):
        return PENDING_AGAIN
    if status is StepStatus.QUEUED and attempt > 1:
        return QUEUED_AGAIN
    if status is StepStatus.HEALTHY and job is JobState.RUNNING:
        return HEALTHY_AND_HELD
    return status.value[0]


def places_of(letters: Sequence[str], wanted: str) -> list[int]:
    """Where one of the `wanted` letters stands."""
    return [at for at, each in enumerate(letters) if each in wanted]
