"""What supervisors report of the unit of a step: that it waits, is pulled, runs, is ready."""

from __future__ import annotations

from typing import Final

from apps.executions.domain import transitions
from apps.executions.domain.agent_reports import Recorded
from apps.executions.domain.events import probes_nudge
from apps.executions.domain.states import StepStatus
from apps.executions.domain.steps import WAIT_CHARACTERS
from apps.executions.services.run_aggregate import RunAggregate
from kernel.agent_protocol import StateReport
from kernel.errors import InvalidInput

_UNIT_STATES: Final = {
    "image-pull": "pulling the image",
    "running": "started",
    "adopted": "adopted after a restart of the supervisor",
}
_WAIT_EVENTS: Final = 20  # of an attempt: a quota's figures may change with each pod of others


def record_state(run: RunAggregate, index: int, report: StateReport) -> Recorded:
    """Record what happened to the unit of a step. Raises InvalidInput before any change."""
    row = run.step(index)
    text = ": ".join(filter(None, (report.message, report.detail)))
    if report.state == "healthy":
        _record_healthy(run, index, text)
    elif report.state == "waiting":
        _record_wait(run, index, text)
    elif report.state not in _UNIT_STATES:
        raise InvalidInput(f"state must be running or healthy, not {report.state!r}")
    elif report.state != "running" or row.unit_started_at is None:
        if report.state == "running":
            run.change_step(index, unit_started_at=run.now)
            _change_wait(run, index, "")
        run.emit_step_event(index, report.state, text or _UNIT_STATES[report.state])
    return Recorded(next_seq=row.next_seq, cancel_reason=row.cancel_reason)


def _record_healthy(run: RunAggregate, index: int, text: str) -> None:
    if run.plan.nodes[index].kind != "service":
        raise InvalidInput("only services report healthy; other steps complete")
    if run.statuses[index] is StepStatus.RUNNING:
        run.apply(transitions.success(run.step_state(index), text or "ready"))


def _record_wait(run: RunAggregate, index: int, text: str) -> None:
    """Keep what the start of a unit waits for, with an event for each of the first changes."""
    row = run.step(index)
    text = text.replace("\0", "\ufffd")[:WAIT_CHARACTERS]
    if row.unit_started_at is not None or text == row.waits_for:
        return
    _change_wait(run, index, text)
    if text and run.event_count(index, "waiting") < _WAIT_EVENTS:
        run.emit_step_event(index, "waiting", text, level="warn")


def _change_wait(run: RunAggregate, index: int, text: str) -> None:
    if run.step(index).waits_for != text:
        run.change_step(index, waits_for=text)
        run.nudge(probes_nudge(run.execution.run_id))
