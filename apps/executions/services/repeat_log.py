"""The row of a repeat and its log, changed together: each change follows the state that was read.

(reference: control-plane 11.8)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apps.executions import conf
from apps.executions.domain.events import line_records, split_output
from apps.executions.domain.kept_environments import keep_nudge
from apps.executions.domain.repeats import (
    RepeatEvent,
    RepeatState,
    advance_repeat,
    repeat_topic,
)
from apps.executions.models import StepRepeat
from apps.executions.selectors.repeats import sentence_of
from apps.streams.api import Batch, LostRace, append, close_topic, nudge
from kernel import clock
from kernel.agent_protocol import LogLine


def change_repeat(row: StepRepeat, **values: Any) -> None:
    """Change a repeat whose state is still the one that was read; raise LostRace."""
    same = StepRepeat.objects.filter(pk=row.pk, state=row.state, holder=row.holder)
    if not same.update(**values):
        raise LostRace
    for name, value in values.items():
        setattr(row, name, value)


def end_repeat(
    row: StepRepeat,
    event: RepeatEvent,
    *,
    reason: str = "",
    detail: str = "",
    exit_code: int | None = None,
) -> None:
    """End a repeat with its last line, and close its log; raise LostRace."""
    state = advance_repeat(RepeatState(row.state), event)
    change_repeat(
        row,
        state=state.value,
        reason=reason,
        detail=detail,
        exit_code=exit_code,
        finished_at=max(clock.now(), row.created_at),
        lease_expires_at=None,
    )
    if row.log_lines_dropped:
        text = f"{row.log_lines_dropped} lines were dropped: the log limit was reached"
        append_system_line(row, text, level="warn")
    level = "info" if state is RepeatState.SUCCEEDED else "error"
    append_system_line(
        row, sentence_of(row), level="warn" if event is RepeatEvent.CANCELED else level
    )
    close_topic(repeat_topic(row.repeat_id), state.value)
    nudge(keep_nudge(row.execution.run_id))


def append_system_line(row: StepRepeat, text: str, *, level: str = "info") -> None:
    _append(row, [LogLine(clock.now(), level, "system", text)])


def append_output(
    row: StepRepeat, lines: Sequence[LogLine], *, keeps_output: bool
) -> dict[str, int]:
    """Append lines of the step; return what changes of its row.

    Beyond the limit that a run has, output is dropped and counted. Without `keeps_output` (the
    profile turns logs off) only system lines are kept.
    """
    is_full = row.log_bytes >= conf.log_max_bytes()
    kept, dropped = split_output(lines, logs=keeps_output, is_full=is_full)
    size = _append(row, kept) if kept else 0
    return {
        "log_bytes": row.log_bytes + size,
        "log_lines_dropped": row.log_lines_dropped + dropped,
    }


def _append(row: StepRepeat, lines: Sequence[LogLine]) -> int:
    """Append lines, whose times count from when the repeat was asked for; return their size."""
    records = line_records(
        row.step_id, lines, started_at=row.created_at, now=clock.now(), attempt=row.attempt
    )
    append([Batch(repeat_topic(row.repeat_id), row.step_id, tuple(records))])
    return sum(map(len, records))
