"""The transitions of a step of a loaded run. Only this module sets the status of steps and jobs.

Each function changes the step in the run aggregate and emits the event; nothing is stored here.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from apps.executions import conf
from apps.executions.domain.agent_reports import SupervisorSession
from apps.executions.domain.events import (
    RUN_SOURCE,
    WORK_NUDGE,
    CauseLink,
    cause_chain,
    jobs_nudge,
    split_output,
)
from apps.executions.domain.plan import Skip
from apps.executions.domain.retry_rules import (
    MOCKS_AWAY,
    MOCKS_PAUSE,
    PULL_ALLOWANCE,
    TIMEOUT_ALLOWANCE,
    may_requeue,
    may_retry,
    pause_before_retry,
)
from apps.executions.domain.states import (
    CUTS_SHORT,
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
from apps.executions.domain.steps import fill_in, layered_env
from apps.executions.models import Step
from apps.executions.selectors.verdicts import chain_from
from apps.executions.services.run_aggregate import RunAggregate
from apps.executions.services.secrets import overriding
from apps.executions.services.telemetry import count_finished_step, step_duration, trace_attempt
from kernel.agent_protocol import LogLine, StepUsage

USAGE_COLUMNS: Final = ("cpu_percent", "memory_bytes", "memory_peak_bytes")
_LEVELS: Final = ("info", "warn", "error", "debug")
_UNCLAIMED: Final[dict[str, object]] = {
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
_EXPECTED: Final = (StepReason.TRIGGER_NOT_FAILED, StepReason.NOT_SELECTED)  # skips
_SKIPPED: Final[dict[StepReason, str]] = {
    StepReason.DEPENDENCY_FAILED: "failed",
    StepReason.DEPENDENCY_SKIPPED: "was skipped",
    StepReason.RUN_FAILED: "the run has already failed",
    StepReason.NOT_SELECTED: "not part of this rerun",
}


def queue(run: RunAggregate, index: int) -> bool:
    """Queue a step for its backend; return whether it has already ended, as log nodes have."""
    _change_status(run, index, StepEvent.READY, attempt=run.attempt(index) + 1, queued_at=run.now)
    if run.plan.nodes[index].kind == "log":
        run.emit_step_event(index, "queued", "queued")
        run_log_node(run, index)
        return True
    if run.plan.nodes[index].kind == "mock":
        run.emit_step_event(index, "queued", "queued")
        return start_mock(run, index)
    _change_job(run, index, JobEvent.ENQUEUED)
    run.emit_step_event(index, "queued", f"queued for {run.execution.backend_label}")
    run.queued_now.append(index)
    return False


def start_mock(run: RunAggregate, index: int) -> bool:
    """Claim a mock for the dispatcher, which waits until its surfaces answer.

    Return whether it has already failed, because there is nothing to serve.
    """
    node = run.definition.nodes[index]
    served = run.definition.mocks.get(node["id"], {})
    empty = [surface for surface, adapter in served.items() if not adapter]
    if empty or not served:
        text = f"API surface {empty[0]} has no operation" if empty else "there is no API surface"
        fail(run, index, StepReason.MOCK_SURFACE_MISSING, f"{text} in api/ and mock/ of the suite")
        return True
    timeout = timedelta(milliseconds=node["timeoutMs"])
    times = {"started_at": run.now, "deadline": run.now + timeout + TIMEOUT_ALLOWANCE}
    _change_job(run, index, JobEvent.ENQUEUED)
    _change_status(run, index, StepEvent.CLAIMED, not_before=None, **times)
    _change_job(run, index, JobEvent.CLAIMED)
    run.emit_step_event(index, "claimed", "claimed by the dispatcher")
    run.mocks_wait = True
    return False


def claim(run: RunAggregate, index: int, supervisor: SupervisorSession) -> None:
    node = run.definition.nodes[index]
    timeout = timedelta(milliseconds=node["timeoutMs"])
    _change_status(
        run,
        index,
        StepEvent.CLAIMED,
        agent_id=supervisor.agent_id,
        incarnation=supervisor.incarnation,
        lease_expires_at=run.now + conf.lease(),
        started_at=run.now,
        not_before=None,
        deadline=run.now + PULL_ALLOWANCE + timeout + TIMEOUT_ALLOWANCE,
    )
    _change_job(run, index, JobEvent.CLAIMED)
    run.emit_step_event(index, "claimed", f"claimed by {supervisor.agent_id}")


def succeed(run: RunAggregate, index: int, text: str, *, exit_code: int | None = None) -> None:
    """End the step as expected; the job of a service stays open."""
    if run.plan.nodes[index].kind == "service":
        _change_status(run, index, StepEvent.ENDED_WELL, deadline=None)
    else:
        _change_status(run, index, StepEvent.ENDED_WELL, exit_code=exit_code, **_at_end(run))
        _change_job(run, index, JobEvent.SUCCEEDED)
    run.emit_step_event(index, "healthy", text)


def fail(
    run: RunAggregate, index: int, reason: StepReason, detail: str, *, exit_code: int | None = None
) -> None:
    """Fail the attempt, and queue another if one is left (reference: control-plane 11.5)."""
    if _may_retry_step(run, index, reason):
        _retry(run, index, reason, detail)
        return
    facts = {"reason": reason, "detail": detail, "exit_code": exit_code, **_at_end(run)}
    _change_status(run, index, StepEvent.FAILED, **facts)
    if run.job_states[index] is not JobState.NONE:
        _change_job(run, index, JobEvent.FAILED)
    run.emit_step_event(index, "failed", detail or str(reason), level="error", reason=str(reason))
    if run.plan.nodes[index].continue_on_failure:
        run.emit_step_event(index, "continued", "the run goes on", level="warn", reason=str(reason))


def record_cause(run: RunAggregate, index: int, reason: StepReason) -> None:
    """Store why a service ended by itself before it was asked to; the verdict names this."""
    run.change_step(index, cause=_own_cause(run, index, reason))


def skip(run: RunAggregate, index: int, why: Skip) -> None:
    """Skip a step that is pending, or queued and not claimed; cancel the job of the latter."""
    cause = [] if why.because is None else chain_from(run.step(why.because))
    _change_status(run, index, StepEvent.SKIPPED, reason=why.reason, cause=cause, **_at_end(run))
    if run.job_states[index] is JobState.PENDING:
        _change_job(run, index, JobEvent.CANCELED)
    level = "info" if why.reason in _EXPECTED else "warn"
    run.emit_step_event(
        index, "skipped", _skip_text(run, index, why), level=level, reason=str(why.reason)
    )


def cancel(run: RunAggregate, index: int, text: str = "canceled") -> None:
    _change_status(run, index, StepEvent.CANCELED, reason=StepReason.CANCELED, **_at_end(run))
    if run.job_states[index] is not JobState.NONE:
        _change_job(run, index, JobEvent.CANCELED)
    run.emit_step_event(index, "canceled", text, level="warn", reason=str(StepReason.CANCELED))


def close_service(run: RunAggregate, index: int) -> None:
    """Close the job of a service that was stopped at the end of the run; it stays healthy."""
    run.change_step(index, **_at_end(run))
    _change_job(run, index, JobEvent.SUCCEEDED)
    _record_end(run, index, "")


def request_stop(run: RunAggregate, index: int, reason: CancelReason) -> None:
    """Ask the supervisor to stop the job: a nudge is sent, and its next call returns the reason."""
    run.change_step(index, cancel_reason=reason)
    run.stops_now = run.stops_now or reason in CUTS_SHORT
    run.nudge(jobs_nudge(run.step(index).agent_id))


def expire(run: RunAggregate, index: int, text: str) -> None:
    """End an attempt whose supervisor no longer has it; queue it again if that is harmless."""
    row = run.step(index)
    if row.cancel_reason:
        end_stopped(run, index)
    elif not run.is_planning:
        cancel(run, index, text)
    elif may_requeue(run.plan.nodes[index], requeues=row.requeues):
        trace_attempt(run, index, "requeued", str(StepReason.AGENT_LOST))
        cause = _own_cause(run, index, StepReason.AGENT_LOST)
        _queue_again(run, index, StepEvent.REQUEUED, text, requeues=row.requeues + 1, cause=cause)
        run.nudge(WORK_NUDGE)
        run.emit_step_event(
            index, "requeued", text, level="warn", reason=str(StepReason.AGENT_LOST)
        )
    else:
        fail(run, index, StepReason.AGENT_LOST, text)


def release(run: RunAggregate, index: int, text: str) -> None:
    """Queue an attempt again whose container was never created. It does not count as a requeue."""
    if run.step(index).cancel_reason or not run.is_planning:
        expire(run, index, text)
        return
    trace_attempt(run, index, "requeued", "")
    _queue_again(run, index, StepEvent.REQUEUED, text)
    run.nudge(WORK_NUDGE)
    run.emit_step_event(index, "requeued", text, level="warn")


def wait_for_mocks(run: RunAggregate, index: int, fault: str) -> None:
    """Queue an attempt again that was not handed out: a mock that it resets does not answer.

    Fail it after `MOCKS_AWAY`.
    """
    since = run.step(index).mocks_away_since or run.now
    if run.step(index).cancel_reason or not run.is_planning:
        expire(run, index, fault)
    elif run.now - since >= MOCKS_AWAY:
        fail(run, index, StepReason.MOCK_NOT_READY, fault)
    else:
        trace_attempt(run, index, "requeued", str(StepReason.MOCK_NOT_READY))
        values = {"mocks_away_since": since, "not_before": run.now + MOCKS_PAUSE}
        _queue_again(run, index, StepEvent.REQUEUED, fault, **values)
        run.nudge(WORK_NUDGE, after_s=MOCKS_PAUSE.total_seconds())
        reason = str(StepReason.MOCK_NOT_READY)
        run.emit_step_event(index, "requeued", fault, level="warn", reason=reason)


def reset(run: RunAggregate, index: int, text: str, cause: Sequence[CauseLink] = ()) -> None:
    """Return a step to `pending` because a service that it ran against was replaced."""
    if run.statuses[index] is StepStatus.SKIPPED:
        run.count_event(index, "skipped")
    if run.job_states[index] is JobState.RUNNING:
        trace_attempt(run, index, "reset", str(RunReason.DEPENDENCY_REPLACED))
        run.nudge(jobs_nudge(run.step(index).agent_id))  # a refused report makes it stop the job
    _change_status(
        run,
        index,
        StepEvent.RESET,
        **_UNCLAIMED,
        queued_at=None,
        not_before=None,
        cause=list(cause),
    )
    _change_job(run, index, JobEvent.RESET)
    run.emit_step_event(
        index, "reset", text, level="warn", reason=str(RunReason.DEPENDENCY_REPLACED)
    )


def end_stopped(run: RunAggregate, index: int) -> None:
    """End a job that its supervisor stopped on request."""
    row = run.step(index)
    stays = row.cancel_reason in (CancelReason.TEARDOWN, CancelReason.DETACH)
    if stays and row.status == StepStatus.HEALTHY:
        close_service(run, index)
    else:
        cancel(run, index)


def _change_status(run: RunAggregate, index: int, event: StepEvent, **values: Any) -> None:
    run.change_step(index, status=advance_step(run.statuses[index], event), **values)
    if values.get("finished_at"):
        _record_end(run, index, str(values.get("reason", "")))


def _record_end(run: RunAggregate, index: int, reason: str) -> None:
    facts = (run.plan.nodes[index].kind, str(run.statuses[index]), reason)
    trace_attempt(run, index, str(run.statuses[index]), reason)
    run.record_metric(count_finished_step(*facts))
    started_at = run.step(index).started_at if run.is_loaded(index) else None
    if started_at:
        run.record_metric(step_duration((started_at, run.now), *facts))


def _change_job(run: RunAggregate, index: int, event: JobEvent) -> None:
    run.change_step(index, job_state=advance_job(run.job_states[index], event))


def _at_end(run: RunAggregate) -> dict[str, datetime | None]:
    return {"finished_at": run.now, "deadline": None, "lease_expires_at": None}


def _may_retry_step(run: RunAggregate, index: int, reason: StepReason) -> bool:
    if run.statuses[index] not in (StepStatus.RUNNING, StepStatus.HEALTHY) or not run.is_planning:
        return False
    row = run.step(index)
    return not row.cancel_reason and may_retry(
        run.plan.nodes[index], reason, retries_used=row.retries_used
    )


def _retry(run: RunAggregate, index: int, reason: StepReason, detail: str) -> None:
    used = run.step(index).retries_used
    pause = pause_before_retry(used)
    trace_attempt(run, index, str(StepStatus.FAILED), str(reason))
    failed = f"attempt {run.attempt(index)} failed: {detail or reason}"
    values = {"retries_used": used + 1, "not_before": run.now + pause}
    if run.statuses[index] is StepStatus.HEALTHY:
        values["cause"] = _own_cause(run, index, reason)
    _queue_again(run, index, StepEvent.RETRY, failed, **values)
    run.nudge(WORK_NUDGE, after_s=pause.total_seconds())
    text = f"{failed}; next in {pause.seconds} s"
    run.emit_step_event(index, "retry", text, level="warn", reason=str(reason))


def _queue_again(run: RunAggregate, index: int, event: StepEvent, why: str, **values: Any) -> None:
    if run.plan.nodes[index].kind == "service":
        run.replaced[index] = why  # `progress_run` resets what had run against it
    fresh = {**_UNCLAIMED, "not_before": None, "queued_at": run.now, **values}
    _change_status(run, index, event, attempt=run.attempt(index) + 1, **fresh)
    _change_job(run, index, JobEvent.RETURNED)


def _own_cause(run: RunAggregate, index: int, reason: StepReason) -> list[CauseLink]:
    """Return the first reason for an attempt beyond those that the suite asks for."""
    row = run.step(index)
    return row.cause or cause_chain(row.step_id, reason=str(reason), exit_code=None, cause=[])


def _skip_text(run: RunAggregate, index: int, why: Skip) -> str:
    nodes = run.plan.nodes
    if why.reason is StepReason.TRIGGER_NOT_FAILED:
        triggers = ", ".join(nodes[trigger].id for trigger in sorted(nodes[index].triggers))
        return f"not needed: none failed of {triggers}"
    if why.because is None:
        return f"skipped: {_SKIPPED[why.reason]}"
    return f"skipped: {nodes[why.because].id} {_SKIPPED[why.reason]}"


def run_log_node(run: RunAggregate, index: int) -> None:
    """Execute a log node: write its line, with placeholders filled in and secrets as `***`."""
    node = run.definition.nodes[index]
    profile = run.definition.profile
    masked = {ref["key"]: "***" for ref in run.definition.secret_refs(node["id"])}
    overrides = overriding(masked=True)
    env = layered_env(node, profile=profile, overrides=overrides, secrets=masked, built_ins={})
    text = fill_in(
        node.get("message", ""),
        env=env,
        facts={
            "suite": run.definition.suite["title"],
            "profile": run.execution.profile,
            "total": str(len(run.statuses)),
            "healthy": str(run.statuses.count(StepStatus.HEALTHY)),
        },
    )
    _change_status(run, index, StepEvent.CLAIMED, started_at=run.now)
    run.emit_step_event(index, "claimed", "claimed by the dispatcher")
    level = node["variant"] if node["variant"] in _LEVELS else "info"
    keep_output(run, index, [LogLine(run.now, level, "user", text)])
    _change_status(run, index, StepEvent.ENDED_WELL, finished_at=run.now)
    run.emit_step_event(index, "healthy", "line written")


def keep_output(run: RunAggregate, index: int, lines: Sequence[LogLine]) -> None:
    """Append the lines that the log of the run keeps, and count what is dropped."""
    is_full = run.execution.log_bytes >= conf.log_max_bytes()
    logs = run.definition.profile["observability"].get("logs", True)
    kept, dropped = split_output(lines, logs=logs, is_full=is_full)
    if dropped:
        _count_dropped(run, dropped)
    if kept:
        size = run.append_log(run.plan.nodes[index].id, kept, attempt=run.attempt(index))
        run.change_run(log_bytes=run.execution.log_bytes + size)


def _count_dropped(run: RunAggregate, count: int) -> None:
    if not run.execution.log_lines_dropped:
        text = (
            f"the log limit of {conf.log_max_bytes()} bytes is reached: further output is dropped"
        )
        run.append_log(RUN_SOURCE, [LogLine(run.now, "warn", "system", text)])
    run.change_run(log_lines_dropped=run.execution.log_lines_dropped + count)


def usage_values(step: Step, usage: StepUsage) -> dict[str, float | None]:
    """Return the newest figures by column; the peak of an adopted attempt never falls."""
    peaks = (step.memory_peak_bytes, usage.memory_peak_bytes)
    peak = max((peak for peak in peaks if peak is not None), default=None)
    return dict(zip(USAGE_COLUMNS, (usage.cpu_percent, usage.memory_bytes, peak), strict=True))
