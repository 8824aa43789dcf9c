"""What can happen to a step of an open board. The only code that gives steps and jobs a status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from apps.executions import conf
from apps.executions.domain.attempts import (
    PULL_ALLOWANCE,
    TIMEOUT_ALLOWANCE,
    may_requeue,
    may_retry,
    pause_before_retry,
)
from apps.executions.domain.causes import cause_chain
from apps.executions.domain.messages import filled_in
from apps.executions.domain.plan import Skip
from apps.executions.domain.reports import LogLine, Supervisor
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
from apps.executions.domain.step_env import layered_env
from apps.executions.domain.topics import WORK_NUDGE
from apps.executions.services.board import Board
from apps.executions.services.measuring import step_finished, step_took
from apps.executions.services.output import keep_output
from apps.executions.services.secrets import overriding
from apps.executions.services.tracing import trace_attempt
from apps.executions.services.usage import UNMEASURED

_UNHELD: dict[str, Any] = {
    "agent_id": "",
    "incarnation": "",
    "lease_expires_at": None,
    "next_seq": 0,
    "position": 0,
    "started_at": None,
    "unit_started_at": None,
    "finished_at": None,
    "exit_code": None,
    "reason": "",
    "deadline": None,
    "cancel_reason": "",
    **UNMEASURED,
}
_SKIPPED: dict[StepReason, str] = {
    StepReason.DEPENDENCY_FAILED: "failed",
    StepReason.DEPENDENCY_SKIPPED: "was skipped",
    StepReason.RUN_FAILED: "the run has failed elsewhere",
    StepReason.NOT_SELECTED: "not selected for this run",
}


def jobs_nudge(agent_id: str) -> str:
    return f"jobs:{agent_id}"


def start(board: Board, at: int) -> bool:
    """Hand a step to the backend; a log node is done at once. Returns whether it ended already."""
    _step(board, at, StepEvent.READY, attempt=board.attempt(at) + 1, queued_at=board.now)
    if board.run.plan.nodes[at].kind == "log":
        board.say(at, "queued", "queued")
        _speak(board, at)
        return True
    if board.run.plan.nodes[at].kind == "mock":
        board.say(at, "queued", "queued")
        fail(board, at, StepReason.MOCK_SURFACE_MISSING, "mock nodes are not available yet")
        return True
    _job(board, at, JobEvent.ENQUEUED)
    board.say(at, "queued", f"queued for {board.execution.backend_label}")
    board.started_now.append(at)
    return False


def claim(board: Board, at: int, supervisor: Supervisor) -> None:
    node = board.run.nodes[at]
    timeout = timedelta(milliseconds=node["timeoutMs"])
    _step(
        board,
        at,
        StepEvent.CLAIMED,
        agent_id=supervisor.agent_id,
        incarnation=supervisor.incarnation,
        lease_expires_at=board.now + conf.lease(),
        started_at=board.now,
        not_before=None,
        deadline=board.now + PULL_ALLOWANCE + timeout + TIMEOUT_ALLOWANCE,
    )
    _job(board, at, JobEvent.CLAIMED)
    board.say(at, "claimed", f"claimed by {supervisor.agent_id}")


def heal(board: Board, at: int, text: str, *, exit_code: int | None = None) -> None:
    """The step ended as expected; the job of a service stays open."""
    if board.run.plan.nodes[at].kind == "service":
        _step(board, at, StepEvent.ENDED_WELL, deadline=None)
    else:
        _step(board, at, StepEvent.ENDED_WELL, exit_code=exit_code, **_ended(board))
        _job(board, at, JobEvent.SUCCEEDED)
    board.say(at, "healthy", text)


def fail(
    board: Board, at: int, reason: StepReason, detail: str, *, exit_code: int | None = None
) -> None:
    """Fail the attempt; another follows if one is left (reference: control-plane 11.5)."""
    if _may_try_again(board, at, reason):
        _retry(board, at, reason, detail)
        return
    _step(
        board,
        at,
        StepEvent.FAILED,
        reason=reason,
        detail=detail,
        exit_code=exit_code,
        **_ended(board),
    )
    if board.job_states[at] is not JobState.NONE:
        _job(board, at, JobEvent.FAILED)
    board.say(at, "failed", detail or str(reason), level="error", reason=str(reason))
    if board.run.plan.nodes[at].continue_on_failure:
        board.say(at, "continued", "the run goes on", level="warn", reason=str(reason))


def blame(board: Board, at: int, reason: StepReason) -> None:
    """Note that a service had ended by itself before it was asked to: the verdict names it."""
    board.change(at, cause=_own_cause(board, at, reason))


def skip(board: Board, at: int, why: Skip) -> None:
    """A queued step that nobody claimed may be skipped too: its job ends canceled."""
    _step(
        board, at, StepEvent.SKIPPED, reason=why.reason, cause=_cause(board, why), **_ended(board)
    )
    if board.job_states[at] is JobState.PENDING:
        _job(board, at, JobEvent.CANCELED)
    level = "info" if why.reason is StepReason.TRIGGER_NOT_FAILED else "warn"
    board.say(at, "skipped", _skip_text(board, at, why), level=level, reason=str(why.reason))


def cancel(board: Board, at: int, text: str = "canceled") -> None:
    _step(board, at, StepEvent.CANCELED, reason=StepReason.CANCELED, **_ended(board))
    if board.job_states[at] is not JobState.NONE:
        _job(board, at, JobEvent.CANCELED)
    board.say(at, "canceled", text, level="warn", reason=str(StepReason.CANCELED))


def close_service(board: Board, at: int) -> None:
    """A healthy service was stopped at the end of the run: it stays healthy."""
    board.change(at, **_ended(board))
    _job(board, at, JobEvent.SUCCEEDED)
    _measure_end(board, at, "")


def ask_to_stop(board: Board, at: int, why: CancelReason) -> None:
    """Its supervisor learns it with its next call, and at once by a nudge."""
    board.change(at, cancel_reason=why)
    board.stops_now = board.stops_now or why in CUTS_SHORT
    board.nudge(jobs_nudge(board.row(at).agent_id))


def lose(board: Board, at: int, text: str) -> None:
    """Nobody holds the attempt any more: it is queued again where that is harmless."""
    row = board.row(at)
    if row.cancel_reason:
        _end_as_asked(board, at)
    elif not board.is_planning:
        cancel(board, at, text)
    elif may_requeue(board.run.plan.nodes[at], requeues=row.requeues):
        trace_attempt(board, at, "requeued", str(StepReason.AGENT_LOST))
        cause = _own_cause(board, at, StepReason.AGENT_LOST)
        _again(board, at, StepEvent.REQUEUED, text, requeues=row.requeues + 1, cause=cause)
        board.nudge(WORK_NUDGE)
        board.say(at, "requeued", text, level="warn", reason=str(StepReason.AGENT_LOST))
    else:
        fail(board, at, StepReason.AGENT_LOST, text)


def give_back(board: Board, at: int, text: str) -> None:
    """An attempt whose container was never created: harmless whatever the node, and not counted."""
    if board.row(at).cancel_reason or not board.is_planning:
        lose(board, at, text)
        return
    trace_attempt(board, at, "requeued", "")
    _again(board, at, StepEvent.REQUEUED, text)
    board.nudge(WORK_NUDGE)
    board.say(at, "requeued", text, level="warn")


def reset(board: Board, at: int, text: str, cause: Sequence[Mapping[str, Any]] = ()) -> None:
    """What it ran against starts anew: its attempt is void, and it waits for its turn again."""
    if board.statuses[at] is StepStatus.SKIPPED:
        board.count(at, "skipped")
    if board.job_states[at] is JobState.RUNNING:
        trace_attempt(board, at, "reset", str(RunReason.DEPENDENCY_REPLACED))
        board.nudge(jobs_nudge(board.row(at).agent_id))  # whoever holds it is refused, and stops it
    _step(board, at, StepEvent.RESET, **_UNHELD, queued_at=None, not_before=None, cause=list(cause))
    _job(board, at, JobEvent.RESET)
    board.say(at, "reset", text, level="warn", reason=str(RunReason.DEPENDENCY_REPLACED))


def end_stopped(board: Board, at: int) -> None:
    """The supervisor stopped the job because it was asked to."""
    _end_as_asked(board, at)


def _end_as_asked(board: Board, at: int) -> None:
    row = board.row(at)
    stays = row.cancel_reason in (CancelReason.TEARDOWN, CancelReason.DETACH)
    if stays and row.status == StepStatus.HEALTHY:
        close_service(board, at)
    else:
        cancel(board, at)


def _step(board: Board, at: int, event: StepEvent, **values: Any) -> None:
    board.change(at, status=advance_step(board.statuses[at], event), **values)
    if values.get("finished_at"):
        _measure_end(board, at, str(values.get("reason", "")))


def _measure_end(board: Board, at: int, reason: str) -> None:
    facts = (board.run.plan.nodes[at].kind, str(board.statuses[at]), reason)
    trace_attempt(board, at, str(board.statuses[at]), reason)
    board.measure(step_finished(*facts))
    started_at = board.row(at).started_at if board.was_claimed(at) else None
    if started_at:
        board.measure(step_took((started_at, board.now), *facts))


def _job(board: Board, at: int, event: JobEvent) -> None:
    board.change(at, job_state=advance_job(board.job_states[at], event))


def _ended(board: Board) -> dict[str, Any]:
    return {"finished_at": board.now, "deadline": None, "lease_expires_at": None}


def _may_try_again(board: Board, at: int, reason: StepReason) -> bool:
    if board.statuses[at] not in (StepStatus.RUNNING, StepStatus.HEALTHY) or not board.is_planning:
        return False
    row = board.row(at)
    return not row.cancel_reason and may_retry(
        board.run.plan.nodes[at], reason, retries_used=row.retries_used
    )


def _retry(board: Board, at: int, reason: StepReason, detail: str) -> None:
    used = board.row(at).retries_used
    pause = pause_before_retry(used)
    trace_attempt(board, at, str(StepStatus.FAILED), str(reason))
    failed = f"attempt {board.attempt(at)} failed: {detail or reason}"
    values = {"retries_used": used + 1, "not_before": board.now + pause}
    if board.statuses[at] is StepStatus.HEALTHY:
        values["cause"] = _own_cause(board, at, reason)
    _again(board, at, StepEvent.RETRY, failed, **values)
    board.nudge(WORK_NUDGE, after_s=pause.total_seconds())
    text = f"{failed}; next in {pause.seconds} s"
    board.say(at, "retry", text, level="warn", reason=str(reason))


def _again(board: Board, at: int, event: StepEvent, why: str, **values: Any) -> None:
    if board.run.plan.nodes[at].kind == "service":
        board.replaced[at] = why  # `settle` looks for what had run against it
    fresh = {**_UNHELD, "not_before": None, "queued_at": board.now, **values}
    _step(board, at, event, attempt=board.attempt(at) + 1, **fresh)
    _job(board, at, JobEvent.RETURNED)


def _own_cause(board: Board, at: int, reason: StepReason) -> list[dict[str, Any]]:
    """Why the step has another attempt that its suite did not ask for: the first such reason."""
    row = board.row(at)
    return row.cause or cause_chain(row.step_id, reason=str(reason), exit_code=None, cause=[])


def _cause(board: Board, why: Skip) -> list[dict[str, Any]]:
    if why.because is None:
        return []
    row = board.row(why.because)
    return cause_chain(row.step_id, reason=row.reason, exit_code=row.exit_code, cause=row.cause)


def _skip_text(board: Board, at: int, why: Skip) -> str:
    nodes = board.run.plan.nodes
    if why.reason is StepReason.TRIGGER_NOT_FAILED:
        triggers = ", ".join(nodes[trigger].id for trigger in sorted(nodes[at].triggers))
        return f"not needed: none failed of {triggers}"
    if why.because is None:
        return f"skipped: {_SKIPPED[why.reason]}"
    return f"skipped: {nodes[why.because].id} {_SKIPPED[why.reason]}"


def _speak(board: Board, at: int) -> None:
    """A log node: its line, with what the suite may fill in; secrets read `***`."""
    node = board.run.nodes[at]
    profile = board.run.profile
    masked = {ref["key"]: "***" for ref in profile["secretRefs"]}
    overrides = overriding(masked=True)
    env = layered_env(node, profile=profile, overrides=overrides, secrets=masked, built_ins={})
    text = filled_in(
        node.get("message", ""),
        env=env,
        facts={
            "suite": board.run.suite["title"],
            "profile": board.execution.profile,
            "total": str(len(board.statuses)),
            "healthy": str(board.statuses.count(StepStatus.HEALTHY)),
        },
    )
    _step(board, at, StepEvent.CLAIMED, started_at=board.now)
    board.say(at, "claimed", "claimed by the dispatcher")
    line = LogLine(board.now, _level(node["variant"]), "user", text)
    keep_output(board, at, [line])
    _step(board, at, StepEvent.ENDED_WELL, finished_at=board.now)
    board.say(at, "healthy", "line written")


def _level(variant: str) -> str:
    return variant if variant in ("info", "warn", "error", "debug") else "info"
