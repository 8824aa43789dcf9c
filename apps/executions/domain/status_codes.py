"""Status codes: the status of every step of a run as one character each, in the row of the run.

They repeat what the step rows have, and are written with them. To plan a run, one text is read
instead of a row per step, so that a large run takes no longer to read than a small one.
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


def status_code_of(
    status: StepStatus, job: JobState, *, attempt: int, repeats: bool = False
) -> str:
    """Return the code of a step; `repeats`: some of its events have come before."""
    if status is StepStatus.PENDING and (attempt or repeats):
        return PENDING_AGAIN
    if status is StepStatus.QUEUED and attempt > 1:
        return QUEUED_AGAIN
    if status is StepStatus.HEALTHY and job is JobState.RUNNING:
        return HEALTHY_AND_HELD
    return status.value[0]


def indexes_with(status_codes: Sequence[str], wanted: str) -> list[int]:
    """Return the indexes of the steps with one of these codes."""
    return [index for index, each in enumerate(status_codes) if each in wanted]
