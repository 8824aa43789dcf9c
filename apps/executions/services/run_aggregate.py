"""The run aggregate: a run and its steps, loaded for update, changed in memory, saved together.

`load_runs` raises the version of the runs before it reads them. Another transaction that plans one
of these runs waits there, so no completion is planned without knowledge of another.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain, groupby
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from apps.executions.domain.events import (
    OVERVIEW_NUDGE,
    REPEATABLE,
    RUN_SOURCE,
    EventRecord,
    event_id,
    event_records,
    events_topic,
    line_records,
    logs_topic,
    timestamps,
    work_nudge,
)
from apps.executions.domain.plan import RunPlan
from apps.executions.domain.retry_rules import StepFailure
from apps.executions.domain.states import (
    STATES_OF,
    ExecutionStatus,
    JobState,
    StatusCode,
    StepStatus,
    indexes_with,
    status_code_of,
)
from apps.executions.models import Execution, Step
from apps.executions.selectors.definitions import (
    RunDefinition,
    StepKeys,
    remember_snapshot,
    run_definition,
    step_keys,
)
from apps.executions.services.enqueue import enqueue
from apps.executions.services.run_rows import raise_versions, read_steps, update_rows
from apps.observability.api import metrics
from apps.streams.api import Batch, LostRace, append, close_topic, nudge
from kernel import clock
from kernel.agent_protocol import LogLine

MetricUpdate = Callable[[], None]
_RUN_EVENT_STATUS: Final = {
    ExecutionStatus.QUEUED: "pending",
    ExecutionStatus.BOOTING: "running",
    ExecutionStatus.CANCELING: "running",
    ExecutionStatus.HEALTHY: "healthy",
    ExecutionStatus.FAILED: "failed",
    ExecutionStatus.CANCELED: "canceled",
}
_STOP_REQUESTS_WITHIN_S: Final = 30.0  # later ones are of no use: workers poll for them
_FIRST_ATTEMPTS: Final = {StatusCode.PENDING: 0, StatusCode.QUEUED: 1}
_VARYING: Final = frozenset({"next_seq", "position"})  # differ from row to row


@dataclass(slots=True)
class RunAggregate:
    """A run and its steps. An index is that of a step in the topology, from 0.

    Change steps with `change_step` and the run with `change_run`; `save_runs` stores the changes.
    """

    execution: Execution
    definition: RunDefinition
    keys: StepKeys
    now: datetime
    statuses: list[StepStatus]
    job_states: list[JobState]
    status_codes: list[str]
    queued_now: list[int] = field(default_factory=list)  # queued within this unit of work
    replaced: dict[int, str] = field(default_factory=dict)  # services that start again, and why
    deferred_failures: dict[int, StepFailure] = field(default_factory=dict)  # of their dependents
    ends_now: bool = False
    stops_now: bool = False  # open jobs were asked to stop before their work is done
    mocks_wait: bool = False  # mock nodes were started, whose surfaces the dispatcher asks for
    _steps: dict[int, Step] = field(default_factory=dict)
    _attempts: dict[int, int] = field(default_factory=dict)
    _changes: dict[int, dict[str, object]] = field(default_factory=lambda: defaultdict(dict))
    _run_changes: dict[str, object] = field(default_factory=dict)
    _events: list[bytes] = field(default_factory=list)
    _lines: list[tuple[str, Sequence[bytes]]] = field(default_factory=list)
    _metric_updates: list[MetricUpdate] = field(default_factory=list)
    _nudges: dict[str, float] = field(default_factory=dict)  # name → seconds from now

    @property
    def plan(self) -> RunPlan:
        return self.definition.plan

    @property
    def is_over(self) -> bool:
        return self.execution.finished_at is not None

    @property
    def is_planning(self) -> bool:
        """Whether steps may still start: the run is booted, not canceled, and has no verdict."""
        return self.execution.status == ExecutionStatus.BOOTING and not self.execution.verdict

    @property
    def not_selected(self) -> list[int]:
        return indexes_with(self.status_codes, StatusCode.NOT_SELECTED)

    def open_jobs(self) -> list[int]:
        return [index for index, job in enumerate(self.job_states) if job is JobState.RUNNING]

    def attempt(self, index: int) -> int:
        """Return the number of the attempt, 0 while pending.

        The row of a step that was started at most once is not read for it.
        """
        if index not in self._attempts:
            known = _FIRST_ATTEMPTS.get(self.status_codes[index])
            self._attempts[index] = self.step(index).attempt if known is None else known
        return self._attempts[index]

    def step(self, index: int) -> Step:
        """Return the row of the step with the changes made so far."""
        if index not in self._steps:
            self.load_steps([index])
        return self._steps[index]

    def is_loaded(self, index: int) -> bool:
        return index in self._steps

    def known_value(self, index: int, column: str) -> Any:
        """Return the column of a step, or None if neither its row nor a change of it is known."""
        step = self._steps.get(index)
        return getattr(step, column) if step else self._changes.get(index, {}).get(column)

    def load_steps(self, indexes: Iterable[int]) -> None:
        """Read the rows of these steps in one query, except those read before."""
        missing = [self.keys.step_pks[index] for index in indexes if index not in self._steps]
        for step in read_steps(missing):
            self.put_step(step)

    def put_step(self, step: Step) -> None:
        index = step.index - 1
        for name, value in self._changes.get(index, {}).items():
            setattr(step, name, value)
        self._steps[index] = step

    def change_step(self, index: int, **values: Any) -> None:
        self.attempt(index)  # remembered while the status code still has it
        self.statuses[index] = values.get("status", self.statuses[index])
        self.job_states[index] = values.get("job_state", self.job_states[index])
        self._attempts[index] = values.get("attempt", self._attempts[index])
        if "status" in values or "job_state" in values:
            self.status_codes[index] = status_code_of(
                self.statuses[index],
                self.job_states[index],
                attempt=self._attempts[index],
                repeats=bool(values.get("repeats") or self.known_value(index, "repeats")),
                reason=values.get("reason", ""),
            )
        self._changes[index].update(values)
        if step := self._steps.get(index):
            for name, value in values.items():
                setattr(step, name, value)

    def change_run(self, **values: Any) -> None:
        self.ends_now = self.ends_now or "finished_at" in values
        self._run_changes.update(values)
        for name, value in values.items():
            setattr(self.execution, name, value)

    def emit_step_event(
        self, index: int, what: str, text: str, *, level: str = "info", reason: str = ""
    ) -> None:
        """Add an event with the present status of the step, and the log line that repeats it."""
        step_id, attempt = self.plan.nodes[index].id, self.attempt(index)
        counted = what in REPEATABLE or self._was_counted(index, what)
        nth = self._count(index, what) if counted else 1
        name = event_id(step_id, what, attempt=attempt, nth=nth)
        self._emit(name, step_id, text, (str(self.statuses[index]), level, reason, attempt))

    def emit_run_event(
        self, what: str, text: str, *, level: str = "info", reason: str = ""
    ) -> None:
        status = _RUN_EVENT_STATUS[ExecutionStatus(self.execution.status)]
        self._emit(event_id(RUN_SOURCE, what), RUN_SOURCE, text, (status, level, reason, 0))

    def _emit(self, name: str, source: str, text: str, facts: tuple[str, str, str, int]) -> None:
        timestamp, time = timestamps(self.execution.started_at, self.now)
        status, level, reason, attempt = facts
        event, line = event_records(
            EventRecord(
                name, source, timestamp, time, text, status, level, reason or None, attempt or None
            )
        )
        self._events.append(event)
        self._lines.append((source, (line,)))

    def count_event(self, index: int, what: str) -> None:
        """Remember that the attempt has this event, so that the next one is its second."""
        if not self._was_counted(index, what):
            self._count(index, what)

    def event_count(self, index: int, what: str) -> int:
        """Return how many repeatable events of this name the attempt has."""
        key = event_id("", what, attempt=self.attempt(index))
        return int(self.step(index).repeats.get(key, 0))

    def _was_counted(self, index: int, what: str) -> bool:
        """Whether a reset left the event in the attempt of the step; its row was read then."""
        repeats = self.known_value(index, "repeats")
        return bool(repeats) and event_id("", what, attempt=self.attempt(index)) in repeats

    def _count(self, index: int, what: str) -> int:
        repeats: dict[str, int] = dict(self.step(index).repeats)
        key = event_id("", what, attempt=self.attempt(index))
        repeats[key] = repeats.get(key, 0) + 1
        self.change_step(index, repeats=repeats)
        return repeats[key]

    def append_log(self, source: str, lines: Iterable[LogLine], *, attempt: int = 0) -> int:
        """Append log lines that repeat no event; return their size in bytes."""
        started_at = self.execution.started_at
        records = line_records(source, lines, started_at=started_at, now=self.now, attempt=attempt)
        self._lines.append((source, records))
        self.record_metric(partial(metrics.count, "partita.log.lines", len(records), stream="logs"))
        return sum(map(len, records))

    def record_metric(self, update: MetricUpdate) -> None:
        """Update a metric once this is committed."""
        self._metric_updates.append(update)

    def nudge(self, name: str, *, after_s: float = 0) -> None:
        """Wake listeners of `name` once this is committed, or `after_s` later."""
        self._nudges[name] = min(after_s, self._nudges.get(name, after_s))

    @property
    def is_changed(self) -> bool:
        return bool(self._changes or self._run_changes or self._lines)

    def write(self) -> None:
        _write_steps(self.keys, self._changes)
        self._changes.clear()
        values = {**self._run_changes, "updated_at": self.now}
        standings = "".join(self.status_codes)
        if standings != self.execution.standings:
            values["standings"] = self.execution.standings = standings
        update_rows(Execution, [self.execution.pk], _plain(values))
        self._run_changes.clear()

    def batches(self) -> list[Batch]:
        """Return the events, then the log lines with consecutive lines of a source together."""
        events = Batch(events_topic(self.execution.run_id), "", tuple(self._events))
        topic = logs_topic(self.execution.run_id)
        lines = [
            Batch(topic, source, tuple(chain.from_iterable(records for _, records in group)))
            for source, group in groupby(self._lines, key=lambda line: line[0])
        ]
        return [events, *lines]

    def after_append(self) -> None:
        run_id = self.execution.run_id
        if self.ends_now:
            for topic in (events_topic, logs_topic):
                close_topic(topic(run_id), str(self.execution.status))
        self._enqueue_tasks()
        updates = tuple(self._metric_updates)
        # robust: an update that raises fails no commit; Django cannot log the name of a partial
        transaction.on_commit(lambda: [update() for update in updates], robust=True)
        if any(self.job_states[index] is JobState.PENDING for index in self.queued_now):
            # steps claimed within this unit of work need none
            self.nudge(work_nudge(self.execution.bound_agent_id))
        for name, after_s in self._nudges.items():
            if after_s:
                transaction.on_commit(partial(_nudge_later, name, after_s))
            else:
                nudge(name)
        if self._events:
            nudge(OVERVIEW_NUDGE)

    def _enqueue_tasks(self) -> None:
        """Send the Celery tasks for what changed, once it is committed."""
        if self.ends_now:
            transaction.on_commit(partial(enqueue, "executions.dispatch"))  # capacity is free
        if self.mocks_wait:
            pk = str(self.execution.pk)
            transaction.on_commit(partial(enqueue, "executions.check_mocks", pk))
        if self.execution.backend_kind == "remote-agent" and (self.stops_now or self.ends_now):
            within_s = _STOP_REQUESTS_WITHIN_S
            transaction.on_commit(
                partial(enqueue, "workers.call_off", self.execution.run_id, expires_s=within_s)
            )


def load_runs(
    execution_pks: Iterable[UUID], *, steps: Mapping[UUID, Iterable[int]] | None = None
) -> dict[UUID, RunAggregate]:
    """Load runs for update, by key, and the rows of the steps at `steps`; leave out deleted runs.

    Needs one to three queries for any number of runs and steps.
    """
    pks = sorted(set(execution_pks))
    if not pks:
        return {}
    executions = raise_versions(pks)
    now = clock.now()
    runs = {execution.pk: _aggregate(execution, now) for execution in executions}
    wanted = {pk: set(indexes) for pk, indexes in (steps or {}).items() if pk in runs}
    step_pks = [
        runs[pk].keys.step_pks[index] for pk, indexes in wanted.items() for index in indexes
    ]
    for step in read_steps(step_pks):
        runs[step.execution_id].put_step(step)
    return runs


def load_run(execution_pk: UUID) -> RunAggregate | None:
    return load_runs([execution_pk]).get(execution_pk)


def read_run(execution_pk: UUID) -> RunAggregate | None:
    """Return a run to read from: its version stays, and nothing of it may be saved."""
    execution = Execution.objects.filter(pk=execution_pk, deleted_at=None).first()
    return _aggregate(execution, clock.now()) if execution else None


def save_runs(runs: Iterable[RunAggregate]) -> None:
    """Store changes, events and lines; followers, supervisors and workers are nudged on commit."""
    changed = [run for run in runs if run.is_changed]
    for run in changed:
        run.write()
    append([batch for run in changed for batch in run.batches()])
    for run in changed:
        run.after_append()


def _aggregate(execution: Execution, now: datetime) -> RunAggregate:
    codes = list(execution.standings)
    remember_snapshot(execution.pk, execution.snapshot_id)
    return RunAggregate(
        execution=execution,
        definition=run_definition(execution.snapshot_id),
        keys=step_keys(execution.pk),
        now=max(now, execution.updated_at),  # time never runs backwards within a run
        statuses=[STATES_OF[code][0] for code in codes],
        job_states=[STATES_OF[code][1] for code in codes],
        status_codes=codes,
    )


def _nudge_later(name: str, after_s: float) -> None:
    """Nudge after a delay. If this process ends before, the sweep finds what is due."""
    timer = threading.Timer(after_s, nudge, [name])
    timer.daemon = True
    timer.start()


def _write_steps(keys: StepKeys, changes: Mapping[int, Mapping[str, object]]) -> None:
    """Send one UPDATE for each set of equal changes; log positions differ and go together."""
    plain = {index: _plain(values) for index, values in changes.items()}
    _write_varying(keys, plain)
    groups: dict[str, tuple[dict[str, object], list[UUID]]] = {}
    for index, values in plain.items():
        if values:
            key = json.dumps(values, sort_keys=True, default=str)
            groups.setdefault(key, (values, []))[1].append(keys.step_pks[index])
    for values, pks in groups.values():
        if update_rows(Step, pks, values) != len(pks):
            raise LostRace


def _write_varying(keys: StepKeys, plain: Mapping[int, dict[str, object]]) -> None:
    """Take log positions out of `plain` and write them together, unless all are equal."""
    varying = {index: values for index, values in plain.items() if values.keys() >= _VARYING}
    if len({tuple(values[name] for name in _VARYING) for values in varying.values()}) <= 1:
        return
    steps = [
        Step(pk=keys.step_pks[index], **{name: values.pop(name) for name in _VARYING})
        for index, values in varying.items()
    ]
    Step.objects.bulk_update(steps, list(_VARYING))


def _plain(values: Mapping[str, object]) -> dict[str, object]:
    """Replace members of enums by their text."""
    return {name: str(value) if isinstance(value, str) else value for name, value in values.items()}
