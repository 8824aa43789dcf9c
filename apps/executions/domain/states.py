"""The three state machines of a run: execution, step and job; and the code of a step's status.

Each is an enum of states, an enum of events and a table. Only the tables name the next state.

(reference: control-plane 11.3, 11.4, 15.2)
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeVar


class ExecutionStatus(StrEnum):
    QUEUED = "Queued"
    BOOTING = "Booting"
    CANCELING = "Canceling"
    HEALTHY = "Healthy"
    FAILED = "Failed"
    CANCELED = "Canceled"


class ExecutionEvent(StrEnum):
    ADMITTED = "admitted"
    CANCEL_REQUESTED = "cancel-requested"
    RUN_FAILED = "run-failed"  # a failure of the run as a whole, before or while it runs
    STEPS_HEALTHY = "steps-healthy"
    STEPS_FAILED = "steps-failed"
    DRAINED = "drained"  # canceling is over: every step terminal, its containers gone


class StepStatus(StrEnum):
    PENDING = "pending"
    QUEUED = "queued"
    RUNNING = "running"
    HEALTHY = "healthy"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELED = "canceled"


class StepEvent(StrEnum):
    READY = "ready"
    SKIPPED = "skipped"
    CLAIMED = "claimed"
    ENDED_WELL = "ended-well"
    FAILED = "failed"
    RETRY = "retry"
    REQUEUED = "requeued"
    RESET = "reset"  # a service that it ran against was replaced
    CANCELED = "canceled"


class JobState(StrEnum):
    """`none`: the step has not been queued for its backend, or never will be."""

    NONE = "none"
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


class JobEvent(StrEnum):
    ENQUEUED = "enqueued"
    CLAIMED = "claimed"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    RETURNED = "returned"  # a retry, or a lease that expired
    RESET = "reset"


class StepReason(StrEnum):
    """Why a step ended as it did; any other reason is `internal_error`.

    (reference: control-plane 11.4)
    """

    DEPENDENCY_FAILED = "dependency_failed"
    DEPENDENCY_SKIPPED = "dependency_skipped"
    RUN_FAILED = "run_failed"
    TRIGGER_NOT_FAILED = "trigger_not_failed"
    NOT_SELECTED = "not_selected"
    EXIT_NONZERO = "exit_nonzero"
    EXIT_UNEXPECTED = "exit_unexpected"
    TIMEOUT = "timeout"
    NOT_READY = "not_ready"
    SERVICE_EXITED = "service_exited"
    OOM_KILLED = "oom_killed"
    IMAGE_MISSING = "image_missing"
    EXPECT_LOGS_MISSING = "expect_logs_missing"
    FAIL_ON_LOGS_MATCHED = "fail_on_logs_matched"
    TEST_FAILURES = "test_failures"
    ARTIFACT_MISSING = "artifact_missing"
    THRESHOLD_FAILED = "threshold_failed"
    TARGET_UNREACHABLE = "target_unreachable"
    MOCK_SURFACE_MISSING = "mock_surface_missing"
    MOCK_NOT_READY = "mock_not_ready"
    RUNTIME_UNAVAILABLE = "runtime_unavailable"
    AGENT_UNAVAILABLE = "agent_unavailable"
    AGENT_LOST = "agent_lost"
    UNSCHEDULABLE = "unschedulable"
    QUOTA_EXCEEDED = "quota_exceeded"
    ADMISSION_REFUSED = "admission_refused"
    CONTAINER_CONFIG = "container_config"
    INIT_FAILED = "init_failed"
    EVICTED = "evicted"
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    CANCELED = "canceled"
    INTERNAL_ERROR = "internal_error"


class RunReason(StrEnum):
    """Why a run failed (reference: control-plane 11.3)."""

    STEP_FAILED = "step_failed"
    SECRET_UNRESOLVED = "secret_unresolved"  # noqa: S105 - a reason, not a secret
    BACKEND_UNAVAILABLE = "backend_unavailable"
    RUN_TIMEOUT = "run_timeout"
    DEPENDENCY_REPLACED = "dependency_replaced"  # what had run against it must not run again
    INTERNAL_ERROR = "internal_error"


class CancelReason(StrEnum):
    """Why a supervisor must stop a job (reference: control-plane 15.1)."""

    CANCELED = "canceled"
    TEARDOWN = "teardown"
    DETACH = "detach"
    TIMEOUT = "timeout"


CUTS_SHORT: Final = frozenset({CancelReason.CANCELED, CancelReason.TIMEOUT})
FINAL_EXECUTION: Final = frozenset(
    {ExecutionStatus.HEALTHY, ExecutionStatus.FAILED, ExecutionStatus.CANCELED}
)
TERMINAL_STEP: Final = frozenset(
    {StepStatus.HEALTHY, StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.CANCELED}
)

EXECUTION_TRANSITIONS: Final[dict[tuple[ExecutionStatus, ExecutionEvent], ExecutionStatus]] = {
    (ExecutionStatus.QUEUED, ExecutionEvent.ADMITTED): ExecutionStatus.BOOTING,
    (ExecutionStatus.QUEUED, ExecutionEvent.RUN_FAILED): ExecutionStatus.FAILED,
    (ExecutionStatus.QUEUED, ExecutionEvent.CANCEL_REQUESTED): ExecutionStatus.CANCELED,
    (ExecutionStatus.BOOTING, ExecutionEvent.STEPS_HEALTHY): ExecutionStatus.HEALTHY,
    (ExecutionStatus.BOOTING, ExecutionEvent.STEPS_FAILED): ExecutionStatus.FAILED,
    (ExecutionStatus.BOOTING, ExecutionEvent.RUN_FAILED): ExecutionStatus.FAILED,
    (ExecutionStatus.BOOTING, ExecutionEvent.CANCEL_REQUESTED): ExecutionStatus.CANCELING,
    (ExecutionStatus.CANCELING, ExecutionEvent.DRAINED): ExecutionStatus.CANCELED,
}
STEP_TRANSITIONS: Final[dict[tuple[StepStatus, StepEvent], StepStatus]] = {
    (StepStatus.PENDING, StepEvent.READY): StepStatus.QUEUED,
    (StepStatus.PENDING, StepEvent.SKIPPED): StepStatus.SKIPPED,
    (StepStatus.PENDING, StepEvent.CANCELED): StepStatus.CANCELED,
    (StepStatus.QUEUED, StepEvent.CLAIMED): StepStatus.RUNNING,
    (StepStatus.QUEUED, StepEvent.SKIPPED): StepStatus.SKIPPED,
    (StepStatus.QUEUED, StepEvent.FAILED): StepStatus.FAILED,
    (StepStatus.QUEUED, StepEvent.CANCELED): StepStatus.CANCELED,
    (StepStatus.RUNNING, StepEvent.ENDED_WELL): StepStatus.HEALTHY,
    (StepStatus.RUNNING, StepEvent.FAILED): StepStatus.FAILED,
    (StepStatus.RUNNING, StepEvent.RETRY): StepStatus.QUEUED,
    (StepStatus.RUNNING, StepEvent.REQUEUED): StepStatus.QUEUED,
    # what ran against a replaced service runs again; what was queued or skipped because of it is
    # decided again
    (StepStatus.RUNNING, StepEvent.RESET): StepStatus.PENDING,
    (StepStatus.RUNNING, StepEvent.CANCELED): StepStatus.CANCELED,
    (StepStatus.HEALTHY, StepEvent.RESET): StepStatus.PENDING,
    (StepStatus.QUEUED, StepEvent.RESET): StepStatus.PENDING,
    (StepStatus.SKIPPED, StepEvent.RESET): StepStatus.PENDING,
    # services only: their job stays open after `healthy`
    (StepStatus.HEALTHY, StepEvent.FAILED): StepStatus.FAILED,
    (StepStatus.HEALTHY, StepEvent.RETRY): StepStatus.QUEUED,
    (StepStatus.HEALTHY, StepEvent.REQUEUED): StepStatus.QUEUED,
    (StepStatus.HEALTHY, StepEvent.CANCELED): StepStatus.CANCELED,
}
JOB_TRANSITIONS: Final[dict[tuple[JobState, JobEvent], JobState]] = {
    (JobState.NONE, JobEvent.ENQUEUED): JobState.PENDING,
    (JobState.PENDING, JobEvent.CLAIMED): JobState.RUNNING,
    (JobState.PENDING, JobEvent.FAILED): JobState.FAILED,
    (JobState.PENDING, JobEvent.CANCELED): JobState.CANCELED,
    (JobState.RUNNING, JobEvent.SUCCEEDED): JobState.SUCCEEDED,
    (JobState.RUNNING, JobEvent.FAILED): JobState.FAILED,
    (JobState.RUNNING, JobEvent.CANCELED): JobState.CANCELED,
    (JobState.RUNNING, JobEvent.RETURNED): JobState.PENDING,
    (JobState.NONE, JobEvent.RESET): JobState.NONE,
    (JobState.PENDING, JobEvent.RESET): JobState.NONE,
    (JobState.RUNNING, JobEvent.RESET): JobState.NONE,
    (JobState.SUCCEEDED, JobEvent.RESET): JobState.NONE,
    (JobState.CANCELED, JobEvent.RESET): JobState.NONE,
}

Status = TypeVar("Status", ExecutionStatus, StepStatus, JobState)


class IllegalTransition(Exception):
    """The table has no transition from this state by this event: the report is too late."""

    def __init__(self, *, current: StrEnum, event: StrEnum) -> None:
        super().__init__(f"no transition from {current!r} by {event!r}")
        self.current = current
        self.event = event


def advance_execution(current: ExecutionStatus, event: ExecutionEvent) -> ExecutionStatus:
    return _advance(EXECUTION_TRANSITIONS, current, event)


def advance_step(current: StepStatus, event: StepEvent) -> StepStatus:
    return _advance(STEP_TRANSITIONS, current, event)


def advance_job(current: JobState, event: JobEvent) -> JobState:
    return _advance(JOB_TRANSITIONS, current, event)


Event = TypeVar("Event", ExecutionEvent, StepEvent, JobEvent)


def _advance(table: dict[tuple[Status, Event], Status], current: Status, event: Event) -> Status:
    try:
        return table[current, event]
    except KeyError:
        raise IllegalTransition(current=current, event=event) from None


class StatusCode:
    """The status of a step as one character; the row of a run has those of all its steps.

    They repeat what the step rows have, and are written with them. To plan a run, one text is read
    instead of a row per step, so that a large run takes no longer to read than a small one.
    """

    PENDING: Final = "p"
    PENDING_AGAIN: Final = "P"  # reset: it started or was skipped before
    QUEUED: Final = "q"
    QUEUED_AGAIN: Final = "Q"  # between two attempts
    RUNNING: Final = "r"
    HEALTHY_AND_HELD: Final = "H"  # a service whose supervisor still has it
    NOT_SELECTED: Final = "n"  # skipped, and satisfies its dependents


STATES_OF: Final[dict[str, tuple[StepStatus, JobState]]] = {
    StatusCode.PENDING: (StepStatus.PENDING, JobState.NONE),
    StatusCode.PENDING_AGAIN: (StepStatus.PENDING, JobState.NONE),
    StatusCode.QUEUED: (StepStatus.QUEUED, JobState.PENDING),
    StatusCode.QUEUED_AGAIN: (StepStatus.QUEUED, JobState.PENDING),
    StatusCode.RUNNING: (StepStatus.RUNNING, JobState.RUNNING),
    "h": (StepStatus.HEALTHY, JobState.SUCCEEDED),
    StatusCode.HEALTHY_AND_HELD: (StepStatus.HEALTHY, JobState.RUNNING),
    "f": (StepStatus.FAILED, JobState.FAILED),
    "s": (StepStatus.SKIPPED, JobState.NONE),
    StatusCode.NOT_SELECTED: (StepStatus.SKIPPED, JobState.NONE),
    "c": (StepStatus.CANCELED, JobState.CANCELED),
}


def status_code_of(
    status: StepStatus, job: JobState, *, attempt: int, repeats: bool = False, reason: str = ""
) -> str:
    """Return the code of a step; `repeats`: some of its events have come before."""
    if status is StepStatus.SKIPPED and reason == StepReason.NOT_SELECTED:
        return StatusCode.NOT_SELECTED
    if status is StepStatus.PENDING and (attempt or repeats):
        return StatusCode.PENDING_AGAIN
    if status is StepStatus.QUEUED and attempt > 1:
        return StatusCode.QUEUED_AGAIN
    if status is StepStatus.HEALTHY and job is JobState.RUNNING:
        return StatusCode.HEALTHY_AND_HELD
    return status.value[0]
