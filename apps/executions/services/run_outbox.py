"""What a unit of work sends about a run: events and log lines in it, all else after its commit."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain, groupby
from typing import Final

from django.db import transaction

from apps.executions.domain.events import (
    OVERVIEW_NUDGE,
    EventRecord,
    event_id,
    event_records,
    events_topic,
    line_records,
    logs_topic,
    timestamps,
)
from apps.executions.domain.plan import PlanNode
from apps.executions.domain.transitions import EventText
from apps.executions.models import Execution
from apps.executions.services.enqueue import enqueue
from apps.executions.services.telemetry import (
    MetricUpdate,
    attempt_trace,
    finished_step,
    run_finished,
    run_trace,
    step_duration,
)
from apps.observability.api import metrics
from apps.streams.api import Batch, close_topic, nudge
from kernel.agent_protocol import LogLine

_STOP_REQUESTS_WITHIN_S: Final = 30.0  # later ones are of no use: workers poll for them


@dataclass(slots=True)
class RunOutbox:
    execution: Execution
    now: datetime
    run_ends: bool = False
    jobs_stop: bool = False  # open jobs were asked to stop before their work is done
    mocks_wait: bool = False  # mock nodes were started, whose surfaces the dispatcher asks for
    _events: list[bytes] = field(default_factory=list)
    _lines: list[tuple[str, Sequence[bytes]]] = field(default_factory=list)
    _metric_updates: list[MetricUpdate] = field(default_factory=list)
    _nudges: dict[str, float] = field(default_factory=dict)  # name → seconds from now

    @property
    def has_lines(self) -> bool:
        """Whether there is anything to store; each event has its line."""
        return bool(self._lines)

    def emit(
        self, source: str, event: EventText, *, status: str, attempt: int = 0, nth: int = 1
    ) -> None:
        """Add an event, the `nth` of its name in the attempt, and the line that repeats it."""
        timestamp, time = timestamps(self.execution.started_at, self.now)
        record = EventRecord(
            event_id(source, event.what, attempt=attempt, nth=nth),
            source,
            timestamp,
            time,
            event.text,
            status,
            event.level,
            event.reason or None,
            attempt or None,
        )
        stored, line = event_records(record)
        self._events.append(stored)
        self._lines.append((source, (line,)))

    def append_log(self, source: str, lines: Iterable[LogLine], *, attempt: int = 0) -> int:
        """Append log lines that repeat no event; return their size in bytes."""
        started_at = self.execution.started_at
        records = line_records(source, lines, started_at=started_at, now=self.now, attempt=attempt)
        self._lines.append((source, records))
        self.record_metric(partial(metrics.count, "partita.log.lines", len(records), stream="logs"))
        return sum(map(len, records))

    def record_metric(self, update: MetricUpdate | None) -> None:
        """Update a metric once this is committed."""
        if update is not None:
            self._metric_updates.append(update)

    def trace_attempt(
        self, node: PlanNode, attempt: int, since: datetime, status: str, reason: str
    ) -> None:
        """Record the span of an attempt that ends now."""
        span = (since, self.now)
        self.record_metric(attempt_trace(self.execution, node, attempt, span, status, reason))

    def count_finished_step(
        self, kind: str, status: str, reason: str, started_at: datetime | None
    ) -> None:
        """Count a step that ends now, and how long it took if it was started."""
        self.record_metric(finished_step(kind, status, reason))
        if started_at:
            self.record_metric(step_duration((started_at, self.now), kind, status, reason))

    def nudge(self, name: str, *, after_s: float = 0) -> None:
        """Wake listeners of `name` once this is committed, or `after_s` later."""
        self._nudges[name] = min(after_s, self._nudges.get(name, after_s))

    def batches(self) -> list[Batch]:
        """Return the events, then the log lines with consecutive lines of a source together."""
        events = Batch(events_topic(self.execution.run_id), "", tuple(self._events))
        topic = logs_topic(self.execution.run_id)
        lines = [
            Batch(topic, source, tuple(chain.from_iterable(records for _, records in group)))
            for source, group in groupby(self._lines, key=lambda line: line[0])
        ]
        return [events, *lines]

    def send(self) -> None:
        """Close the topics of a run that ends, and send the rest once this is committed."""
        if self.run_ends:
            for topic in (events_topic, logs_topic):
                close_topic(topic(self.execution.run_id), str(self.execution.status))
            self.record_metric(run_finished(self.execution))
            self.record_metric(run_trace(self.execution, self.now))
        self._enqueue_tasks()
        updates = tuple(self._metric_updates)
        # robust: an update that raises fails no commit; Django cannot log the name of a partial
        transaction.on_commit(lambda: [update() for update in updates], robust=True)
        for name, after_s in self._nudges.items():
            if after_s:
                transaction.on_commit(partial(_nudge_later, name, after_s))
            else:
                nudge(name)
        if self._events:
            nudge(OVERVIEW_NUDGE)

    def _enqueue_tasks(self) -> None:
        execution = self.execution
        if self.run_ends:
            transaction.on_commit(partial(enqueue, "executions.dispatch"))  # capacity is free
        if self.mocks_wait:
            transaction.on_commit(partial(enqueue, "executions.check_mocks", str(execution.pk)))
        if execution.backend_kind == "remote-agent" and (self.jobs_stop or self.run_ends):
            within_s = _STOP_REQUESTS_WITHIN_S
            transaction.on_commit(
                partial(enqueue, "workers.call_off", execution.run_id, expires_s=within_s)
            )


def _nudge_later(name: str, after_s: float) -> None:
    """Nudge after a delay. If this process ends before, the sweep finds what is due."""
    timer = threading.Timer(after_s, nudge, [name])
    timer.daemon = True
    timer.start()
