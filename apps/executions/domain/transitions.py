"""The transitions of a step, as values: what each sets, emits and wakes.

Pure. Only this module decides which status a step and its job have next. The run aggregate makes
the changes, in order (reference: control-plane 11.4, 11.5, 15.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from apps.executions.domain.agent_reports import SupervisorSession
from apps.executions.domain.events import WORK_NUDGE, CauseLink, cause_chain
from apps.executions.domain.plan import PlanNode
from apps.executions.domain.retry_rules import (
    MOCKS_AWAY,
    MOCKS_PAUSE,
    PULL_ALLOWANCE,
    TIMEOUT_ALLOWANCE,
    StepFailure,
    may_requeue,
    may_retry,
    pause_before_retry,
)
from apps.executions.domain.states import (
    CancelReason,
    JobEvent,
    JobState,
    StepEvent,
    StepReason,
    StepStatus,
    advance_job,
    advance_step,
)
from kernel.agent_protocol import LogLine, StepUsage

Values = dict[str, object]  # by column
USAGE_COLUMNS: Final = ("cpu_percent", "memory_bytes", "memory_peak_bytes")
UNCLAIMED: Final[Values] = {
    "agent_id": "",
    "incarnation": "",
    "lease_expires_at": None,
    "next_seq": 0,
    "position": 0,
    "started_at": None,
    "unit_started_at": None,
    "finished_at": None,
    "exit_code": None,
    "deadline": None,
    "missing_artifacts": [],
    **dict.fromkeys(("reason", "cancel_reason", "waits_for"), ""),
    **dict.fromkeys(("mocks_away_since", *USAGE_COLUMNS)),
}


@dataclass(frozen=True, slots=True)
class StepState:
    """A step before a transition; the facts from `agent_id` on are those of an open job."""

    index: int
    node: PlanNode
    status: StepStatus
    job: JobState
    attempt: int  # 0 while pending
    now: datetime
    is_planning: bool  # of its run
    agent_id: str = ""
    cancel_reason: str = ""
    retries_used: int = 0
    requeues: int = 0
    cause: Sequence[CauseLink] = ()
    mocks_away_since: datetime | None = None


class EventText(NamedTuple):
    """An event that is emitted with the status after a change."""

    what: str
    text: str
    level: str = "info"
    reason: str = ""


class AttemptEnd(NamedTuple):
    """The end of an attempt that another follows, as its span has it."""

    status: str
    reason: str


class Nudge(NamedTuple):
    name: str
    after_s: float = 0


@dataclass(frozen=True, slots=True)
class StepChange:
    """One transition of a step. `output` comes before the change, and `events` after it.

    `replaced` is why an attempt goes back to the queue: what ran against a service is reset.
    """

    index: int
    values: Values
    events: tuple[EventText, ...] = ()
    attempt_end: AttemptEnd | None = None
    nudge: Nudge | None = None
    replaced: str = ""
    output: Sequence[LogLine] = ()


class RunChange(NamedTuple):
    """Columns of a run that change, and the events that follow; a `warning` goes to its log."""

    values: Values
    events: tuple[EventText, ...] = ()
    warning: str = ""


def claim(
    step: StepState, supervisor: SupervisorSession, *, lease: timedelta, timeout: timedelta
) -> StepChange:
    values: Values = {
        "status": advance_step(step.status, StepEvent.CLAIMED),
        "job_state": advance_job(step.job, JobEvent.CLAIMED),
        "agent_id": supervisor.agent_id,
        "incarnation": supervisor.incarnation,
        "lease_expires_at": step.now + lease,
        "started_at": step.now,
        "not_before": None,
        "deadline": step.now + PULL_ALLOWANCE + timeout + TIMEOUT_ALLOWANCE,
    }
    event = EventText("claimed", f"claimed by {supervisor.agent_id}")
    return StepChange(step.index, values, (event,))


def success(step: StepState, text: str, *, exit_code: int | None = None) -> StepChange:
    """End the step as expected; the job of a service stays open."""
    values: Values = {"status": advance_step(step.status, StepEvent.ENDED_WELL)}
    if step.node.kind == "service":
        values["deadline"] = None
    else:
        job = advance_job(step.job, JobEvent.SUCCEEDED)
        values |= {"job_state": job, "exit_code": exit_code, **end_values(step)}
    return StepChange(step.index, values, (EventText("healthy", text),))


def failure(step: StepState, why: StepFailure) -> StepChange:
    """Fail the attempt, and queue another if one is left (reference: control-plane 11.5)."""
    if _is_retried(step, why.reason):
        return _retry(step, why)
    reason = str(why.reason)
    values: Values = {
        "status": advance_step(step.status, StepEvent.FAILED),
        "reason": why.reason,
        "detail": why.detail,
        "exit_code": why.exit_code,
        **end_values(step),
    }
    if step.job is not JobState.NONE:
        values["job_state"] = advance_job(step.job, JobEvent.FAILED)
    events = [EventText("failed", why.detail or reason, "error", reason)]
    if step.node.continue_on_failure:
        events.append(EventText("continued", "the run goes on", "warn", reason))
    return StepChange(step.index, values, tuple(events))


def exit_cause(step: StepState, reason: StepReason) -> StepChange:
    """Keep why a service ended by itself before it was asked to; the verdict names this."""
    return StepChange(step.index, {"cause": _own_cause(step, reason)})


def step_cancellation(step: StepState, text: str = "canceled") -> StepChange:
    values: Values = {
        "status": advance_step(step.status, StepEvent.CANCELED),
        "reason": StepReason.CANCELED,
        **end_values(step),
    }
    if step.job is not JobState.NONE:
        values["job_state"] = advance_job(step.job, JobEvent.CANCELED)
    event = EventText("canceled", text, "warn", str(StepReason.CANCELED))
    return StepChange(step.index, values, (event,))


def stopped_job(step: StepState) -> StepChange:
    """End a job that its supervisor stopped on request; a healthy service stays healthy."""
    stays = step.cancel_reason in (CancelReason.TEARDOWN, CancelReason.DETACH)
    if not stays or step.status is not StepStatus.HEALTHY:
        return step_cancellation(step)
    job = advance_job(step.job, JobEvent.SUCCEEDED)
    return StepChange(step.index, {"job_state": job, **end_values(step)})


def expiry(step: StepState, text: str) -> StepChange:
    """End an attempt whose supervisor no longer has it; queue it again if that is harmless."""
    if step.cancel_reason:
        return stopped_job(step)
    if not step.is_planning:
        return step_cancellation(step, text)
    lost = StepReason.AGENT_LOST
    if not may_requeue(step.node, requeues=step.requeues):
        return failure(step, StepFailure(lost, text))
    again: Values = {"requeues": step.requeues + 1, "cause": _own_cause(step, lost)}
    return _requeue(step, text, again, reason=str(lost))


def release(step: StepState, text: str) -> StepChange:
    """Queue an attempt again whose container was never created. It does not count as a requeue."""
    if step.cancel_reason or not step.is_planning:
        return expiry(step, text)
    return _requeue(step, text, {})


def mock_wait(step: StepState, fault: str) -> StepChange:
    """Queue an attempt again that was not handed out: a mock that it resets does not answer.

    Fail it after `MOCKS_AWAY`.
    """
    since = step.mocks_away_since or step.now
    if step.cancel_reason or not step.is_planning:
        return expiry(step, fault)
    if step.now - since >= MOCKS_AWAY:
        return failure(step, StepFailure(StepReason.MOCK_NOT_READY, fault))
    again: Values = {"mocks_away_since": since, "not_before": step.now + MOCKS_PAUSE}
    after_s = MOCKS_PAUSE.total_seconds()
    return _requeue(step, fault, again, reason=str(StepReason.MOCK_NOT_READY), after_s=after_s)


def usage_values(usage: StepUsage, *, peak_before: float | None) -> dict[str, float | None]:
    """Return the newest figures by column; the peak of an adopted attempt never falls."""
    peaks = (peak_before, usage.memory_peak_bytes)
    peak = max((peak for peak in peaks if peak is not None), default=None)
    return dict(zip(USAGE_COLUMNS, (usage.cpu_percent, usage.memory_bytes, peak), strict=True))


def end_values(step: StepState) -> Values:
    return {"finished_at": step.now, "deadline": None, "lease_expires_at": None}


def _is_retried(step: StepState, reason: StepReason) -> bool:
    if step.status not in (StepStatus.RUNNING, StepStatus.HEALTHY) or not step.is_planning:
        return False
    return not step.cancel_reason and may_retry(step.node, reason, retries_used=step.retries_used)


def _retry(step: StepState, why: StepFailure) -> StepChange:
    pause = pause_before_retry(step.retries_used)
    failed = f"attempt {step.attempt} failed: {why.detail or why.reason}"
    again: Values = {"retries_used": step.retries_used + 1, "not_before": step.now + pause}
    if step.status is StepStatus.HEALTHY:
        again["cause"] = _own_cause(step, why.reason)
    reason = str(why.reason)
    return StepChange(
        step.index,
        _return_values(step, StepEvent.RETRY, again),
        (EventText("retry", f"{failed}; next in {pause.seconds} s", "warn", reason),),
        AttemptEnd(str(StepStatus.FAILED), reason),
        Nudge(WORK_NUDGE, pause.total_seconds()),
        replaced=failed,
    )


def _requeue(
    step: StepState, text: str, again: Values, *, reason: str = "", after_s: float = 0
) -> StepChange:
    return StepChange(
        step.index,
        _return_values(step, StepEvent.REQUEUED, again),
        (EventText("requeued", text, "warn", reason),),
        AttemptEnd("requeued", reason),
        Nudge(WORK_NUDGE, after_s),
        replaced=text,
    )


def _return_values(step: StepState, event: StepEvent, again: Values) -> Values:
    return {
        **UNCLAIMED,
        "status": advance_step(step.status, event),
        "job_state": advance_job(step.job, JobEvent.RETURNED),
        "attempt": step.attempt + 1,
        "not_before": None,
        "queued_at": step.now,
        **again,
    }


def _own_cause(step: StepState, reason: StepReason) -> list[CauseLink]:
    """Return the first reason for an attempt beyond those that the suite asks for."""
    return list(step.cause) or cause_chain(
        step.node.id, reason=str(reason), exit_code=None, cause=[]
    )
