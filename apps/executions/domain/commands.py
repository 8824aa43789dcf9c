"""The commands of a decision about a run, and the transitions of steps that they bring, as values.

Pure; the transitions that reports bring are in `transitions` (reference: control-plane 11.4, 11.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from apps.executions.domain.events import CauseLink, jobs_nudge
from apps.executions.domain.plan import RunPlan, Skip
from apps.executions.domain.retry_rules import TIMEOUT_ALLOWANCE, StepFailure
from apps.executions.domain.states import (
    CancelReason,
    JobEvent,
    JobState,
    RunReason,
    StepEvent,
    StepReason,
    StepStatus,
    advance_job,
    advance_step,
)
from apps.executions.domain.transitions import (
    UNCLAIMED,
    AttemptEnd,
    EventText,
    Nudge,
    StepChange,
    StepState,
    Values,
    end_values,
    failure,
    step_cancellation,
)
from kernel.agent_protocol import LogLine

_BY_DISPATCHER: Final = "claimed by the dispatcher"
_EXPECTED: Final = (StepReason.TRIGGER_NOT_FAILED, StepReason.NOT_SELECTED)  # skips
_SKIPPED: Final[dict[StepReason, str]] = {
    StepReason.DEPENDENCY_FAILED: "failed",
    StepReason.DEPENDENCY_SKIPPED: "was skipped",
    StepReason.RUN_FAILED: "the run has already failed",
    StepReason.NOT_SELECTED: "not part of this rerun",
}


@dataclass(frozen=True, slots=True)
class ChangeRun:
    """Change columns of the run; the reason `step_failed` brings the step that failed first.

    `stores_sentence`: what the run is like in words is stored then; an `event` without a text has
    this sentence. `ends`: the run is over, and output that was dropped is told before the event.
    """

    values: Values
    event: EventText | None = None
    stores_sentence: bool = False
    ends: bool = False


@dataclass(frozen=True, slots=True)
class ResetStep:
    """Return a step to `pending` because a service that it ran against was replaced."""

    index: int
    text: str
    cause: Sequence[CauseLink] = ()


@dataclass(frozen=True, slots=True)
class CancelStep:
    index: int
    text: str = "canceled"


@dataclass(frozen=True, slots=True)
class SkipStep:
    index: int
    why: Skip


@dataclass(frozen=True, slots=True)
class StartStep:
    """Queue a step; a log node and a mock are the dispatcher's, which starts them at once."""

    index: int


@dataclass(frozen=True, slots=True)
class StopJob:
    """Ask for the end of an open job; a healthy service of a kept environment runs on."""

    index: int
    reason: CancelReason


@dataclass(frozen=True, slots=True)
class EndJob:
    """End an open job without its supervisor."""

    index: int


@dataclass(frozen=True, slots=True)
class KeepEnvironment:
    """Keep the environment until then, if the workspace may keep one more."""

    until: datetime


StepCommand = ResetStep | CancelStep | SkipStep | StartStep | StopJob | EndJob
Command = ChangeRun | KeepEnvironment | StepChange | StepCommand


def queue_entry(step: StepState, backend: str) -> StepChange:
    """Queue a step for the backend with this label."""
    values = _queue_values(step, has_job=True)
    return StepChange(step.index, values, (EventText("queued", f"queued for {backend}"),))


def log_run(step: StepState, line: LogLine) -> tuple[StepChange, ...]:
    """Run a log node, which ends at once, with its line as output."""
    queued = StepChange(step.index, _queue_values(step), (EventText("queued", "queued"),))
    claimed = {"status": advance_step(StepStatus.QUEUED, StepEvent.CLAIMED), "started_at": step.now}
    healthy = {
        "status": advance_step(StepStatus.RUNNING, StepEvent.ENDED_WELL),
        "finished_at": step.now,
    }
    return (
        queued,
        StepChange(step.index, claimed, (EventText("claimed", _BY_DISPATCHER),)),
        StepChange(step.index, healthy, (EventText("healthy", "line written"),), output=[line]),
    )


def mock_start(step: StepState, *, fault: str, timeout: timedelta) -> tuple[StepChange, ...]:
    """Claim a mock for the dispatcher, which waits until its surfaces answer.

    It fails at once if there is a `fault`: nothing to serve.
    """
    queued = StepChange(step.index, _queue_values(step), (EventText("queued", "queued"),))
    step = replace(step, status=StepStatus.QUEUED, attempt=step.attempt + 1)
    if fault:
        return queued, failure(step, StepFailure(StepReason.MOCK_SURFACE_MISSING, fault))
    values: Values = {
        "status": advance_step(step.status, StepEvent.CLAIMED),
        "job_state": advance_job(advance_job(step.job, JobEvent.ENQUEUED), JobEvent.CLAIMED),
        "not_before": None,
        "started_at": step.now,
        "deadline": step.now + timeout + TIMEOUT_ALLOWANCE,
    }
    return queued, StepChange(step.index, values, (EventText("claimed", _BY_DISPATCHER),))


def skip(step: StepState, why: Skip, plan: RunPlan, cause: Sequence[CauseLink] = ()) -> StepChange:
    """Skip a step that is pending, or queued and not claimed; cancel the job of the latter."""
    level = "info" if why.reason in _EXPECTED else "warn"
    event = EventText("skipped", _skip_text(step, why, plan), level, str(why.reason))
    values: Values = {
        "status": advance_step(step.status, StepEvent.SKIPPED),
        "reason": why.reason,
        "cause": list(cause),
        **end_values(step),
    }
    if step.job is JobState.PENDING:
        values["job_state"] = advance_job(step.job, JobEvent.CANCELED)
    return StepChange(step.index, values, (event,))


def reset(step: StepState, text: str, cause: Sequence[CauseLink] = ()) -> StepChange:
    """Return a step to `pending` because a service that it ran against was replaced."""
    reason = str(RunReason.DEPENDENCY_REPLACED)
    values: Values = {
        **UNCLAIMED,
        "status": advance_step(step.status, StepEvent.RESET),
        "job_state": advance_job(step.job, JobEvent.RESET),
        "queued_at": None,
        "not_before": None,
        "cause": list(cause),
    }
    is_open = step.job is JobState.RUNNING
    return StepChange(
        step.index,
        values,
        (EventText("reset", text, "warn", reason),),
        AttemptEnd("reset", reason) if is_open else None,
        Nudge(jobs_nudge(step.agent_id)) if is_open else None,  # its refused report stops the job
    )


def stop(step: StepState, reason: CancelReason, *, is_kept: bool) -> StepChange:
    """Ask the supervisor to stop the job: it is nudged, and its next call returns the reason.

    A mock, which only waits, is canceled; a healthy service of an environment that is kept runs on.
    """
    if step.node.kind == "mock":
        return step_cancellation(step)
    if is_kept and step.node.kind == "service" and step.status is StepStatus.HEALTHY:
        reason = CancelReason.DETACH
    nudge = Nudge(jobs_nudge(step.agent_id))
    return StepChange(step.index, {"cancel_reason": reason}, nudge=nudge)


def _queue_values(step: StepState, *, has_job: bool = False) -> Values:
    values: Values = {
        "status": advance_step(step.status, StepEvent.READY),
        "attempt": step.attempt + 1,
        "queued_at": step.now,
    }
    if has_job:
        values["job_state"] = advance_job(step.job, JobEvent.ENQUEUED)
    return values


def _skip_text(step: StepState, why: Skip, plan: RunPlan) -> str:
    if why.reason is StepReason.TRIGGER_NOT_FAILED:
        triggers = ", ".join(plan.nodes[trigger].id for trigger in sorted(step.node.triggers))
        return f"not needed: none failed of {triggers}"
    if why.because is None:
        return f"skipped: {_SKIPPED[why.reason]}"
    return f"skipped: {plan.nodes[why.because].id} {_SKIPPED[why.reason]}"
