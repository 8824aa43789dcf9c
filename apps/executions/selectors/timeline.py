"""The timeline of a run, from its steps and stored events (reference: control-plane 11.10)."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Final

import msgspec

from apps.accounts.api import Principal
from apps.executions.domain.critical_path import (
    RunSpan,
    TimelineBody,
    critical_path,
    waiting_sentence,
)
from apps.executions.domain.events import RUN_SOURCE, EventRecord, event_name, events_topic
from apps.executions.domain.timeline import StepFacts, StepMark, step_timelines
from apps.executions.models import Execution, Step
from apps.executions.selectors.definitions import edges_of
from apps.executions.selectors.runs import duration, get_execution
from apps.streams import api as streams
from kernel import clock

_event: Final = msgspec.json.Decoder(EventRecord)


def timeline(principal: Principal, run_id: str) -> TimelineBody:
    """Return the timeline until now, or until the end; raise ExecutionNotFound."""
    row = get_execution(principal, run_id)
    is_over = row.finished_at is not None
    span = RunSpan(
        duration_ms=clock.milliseconds(duration(row, clock.now())),
        booted_ms=_offset_ms(row, row.booted_at),
        is_over=is_over,
    )
    steps = step_timelines(_facts_of(row), duration_ms=span.duration_ms, is_over=is_over)
    edges = edges_of([row.snapshot_id])[row.snapshot_id]
    needs = {step_id: (*each.depends_on, *each.on_failure) for step_id, each in edges.items()}
    links = critical_path(steps, needs, booted_ms=span.booted_ms or 0)
    body: TimelineBody = {
        "id": row.run_id,
        "status": row.status,
        "startedAt": clock.rfc3339(row.started_at),
        "durationMs": span.duration_ms,
        "isOver": is_over,
        "sentence": waiting_sentence(steps, links, span),
        "criticalPath": links,
        "steps": steps,
    }
    if span.booted_ms is not None:
        body["bootedMs"] = span.booted_ms
    return body


def _facts_of(row: Execution) -> list[StepFacts]:
    """Return the steps of the run in level order, each with its events."""
    steps = list(Step.objects.filter(execution=row).order_by("index"))  # before the events
    marks = _marks_of(row)
    return [
        StepFacts(
            id=step.step_id,
            name=step.name,
            kind=step.kind,
            status=step.status,
            ended_ms=_offset_ms(row, step.finished_at),
            marks=tuple(marks[step.step_id]),
        )
        for step in steps
    ]


def _marks_of(row: Execution) -> dict[str, list[StepMark]]:
    marks: dict[str, list[StepMark]] = defaultdict(list)
    for chunk in streams.iterate(events_topic(row.run_id)):
        for event in map(_event.decode, chunk.records):
            if event.source == RUN_SOURCE:
                continue
            attempt = event.attempt or 1
            at_ms = _offset_ms(row, clock.parse_rfc3339(event.time)) or 0
            name = event_name(event.id, event.source, attempt=attempt)
            marks[event.source].append(StepMark(name=name, at_ms=at_ms, attempt=attempt))
    return marks


def _offset_ms(row: Execution, instant: datetime | None) -> int | None:
    if instant is None:
        return None
    return max(0, clock.milliseconds(instant - row.started_at))
