"""A run on the table of one unit of work: read once, changed in memory, written together.

`open_boards` first raises the version of the runs, then reads: whoever else plans one of them
waits there, so that no completion is planned without knowledge of another.
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

from apps.executions.domain import standings
from apps.executions.domain.event_ids import REPEATABLE, RUN_SOURCE, event_id
from apps.executions.domain.reports import LogLine
from apps.executions.domain.states import ExecutionStatus, JobState, StepStatus
from apps.executions.domain.topics import (
    OVERVIEW_NUDGE,
    WORK_NUDGE,
    events_topic,
    logs_topic,
)
from apps.executions.models import Execution, Step
from apps.executions.selectors.plans import RunPlan, RunRows, run_plan, run_rows
from apps.executions.services.board_rows import raise_versions, read_steps, update_rows
from apps.executions.services.enqueue import enqueue
from apps.executions.services.measuring import Measure, lines_stored
from apps.executions.services.records import event_record, line_records
from apps.streams.api import Batch, LostRace, append, close_topic, nudge
from kernel import clock

_RUN_EVENT_STATUS: Final = {
    ExecutionStatus.QUEUED: "pending",
    ExecutionStatus.BOOTING: "running",
    ExecutionStatus.CANCELING: "running",
    ExecutionStatus.HEALTHY: "healthy",
    ExecutionStatus.FAILED: "failed",
    ExecutionStatus.CANCELED: "canceled",
}
_CALLS_WITHIN_S: Final = 30.0
_VARYING: Final = frozenset({"next_seq", "position"})  # differ from row to row


@dataclass(slots=True)
class Board:
    """A run and its steps; places count from 0 in the order of the topology.

    Steps change by `change`, the run by `change_run`; nothing is stored before `write_boards`.
    """

    execution: Execution
    run: RunPlan
    keys: RunRows
    now: datetime
    statuses: list[StepStatus]
    job_states: list[JobState]
    letters: list[str]
    started_now: list[int] = field(default_factory=list)  # queued within this unit of work
    replaced: dict[int, str] = field(default_factory=dict)  # services that start anew, and why
    voided: dict[int, Callable[[], None]] = field(default_factory=dict)  # failures beside those
    ends_now: bool = False
    stops_now: bool = False  # open jobs were asked to stop without having done what they are for
    _rows: dict[int, Step] = field(default_factory=dict)
    _attempts: dict[int, int] = field(default_factory=dict)
    _changes: dict[int, dict[str, Any]] = field(default_factory=lambda: defaultdict(dict))
    _run_changes: dict[str, Any] = field(default_factory=dict)
    _events: list[bytes] = field(default_factory=list)
    _lines: list[tuple[str, Sequence[bytes]]] = field(default_factory=list)
    _measures: list[Measure] = field(default_factory=list)
    _nudges: dict[str, float] = field(default_factory=dict)  # name → seconds from now

    @property
    def is_over(self) -> bool:
        return self.execution.finished_at is not None

    @property
    def is_planning(self) -> bool:
        """Whether steps may still start: booted, not canceled, no verdict."""
        return self.execution.status == ExecutionStatus.BOOTING and not self.execution.verdict

    def open_jobs(self) -> list[int]:
        return [at for at, job in enumerate(self.job_states) if job is JobState.RUNNING]

    @property
    def not_selected(self) -> list[int]:
        return standings.places_of(self.letters, standings.NOT_SELECTED)

    def attempt(self, at: int) -> int:
        """0 while pending. Known without its row of steps that were started at most once."""
        if at not in self._attempts:
            fresh = {standings.PENDING: 0, standings.QUEUED: 1}
            known = fresh.get(self.letters[at])
            self._attempts[at] = self.row(at).attempt if known is None else known
        return self._attempts[at]

    def row(self, at: int) -> Step:
        """The step as stored, with the changes made so far."""
        if at not in self._rows:
            self.load([at])
        return self._rows[at]

    def was_claimed(self, at: int) -> bool:
        """Whether an attempt of it ran, as far as is known without reading its row."""
        return at in self._rows

    def known(self, at: int, column: str) -> Any:
        """What the step's row says by now, as far as that is known without reading it; or None."""
        row = self._rows.get(at)
        return getattr(row, column) if row else self._changes.get(at, {}).get(column)

    def load(self, places: Iterable[int]) -> None:
        """Read these rows in one query; those read before are kept."""
        for step in read_steps([self.keys.step_pks[at] for at in places if at not in self._rows]):
            self.put_row(step)

    def put_row(self, step: Step) -> None:
        at = step.index - 1
        for name, value in self._changes.get(at, {}).items():
            setattr(step, name, value)
        self._rows[at] = step

    def change(self, at: int, **values: Any) -> None:
        self.attempt(at)  # remembered while the letter still tells it
        self.statuses[at] = values.get("status", self.statuses[at])
        self.job_states[at] = values.get("job_state", self.job_states[at])
        self._attempts[at] = values.get("attempt", self._attempts[at])
        if "status" in values or "job_state" in values:
            self.letters[at] = standings.letter(
                self.statuses[at],
                self.job_states[at],
                attempt=self._attempts[at],
                repeats=bool(values.get("repeats") or self.known(at, "repeats")),
            )
        self._changes[at].update(values)
        if row := self._rows.get(at):
            for name, value in values.items():
                setattr(row, name, value)

    def change_run(self, **values: Any) -> None:
        self.ends_now = self.ends_now or "finished_at" in values
        self._run_changes.update(values)
        for name, value in values.items():
            setattr(self.execution, name, value)

    def say(self, at: int, what: str, text: str, *, level: str = "info", reason: str = "") -> None:
        """An event of a step with the status it has now, and its mirror in the log."""
        node = self.run.plan.nodes[at]
        attempt = self.attempt(at)
        nth = self._nth(at, what) if what in REPEATABLE or self._was_counted(at, what) else 1
        self._record(
            event_id(node.id, what, attempt=attempt, nth=nth),
            node.id,
            text,
            (str(self.statuses[at]), level, reason, attempt),
        )

    def say_of_run(self, what: str, text: str, *, level: str = "info", reason: str = "") -> None:
        status = _RUN_EVENT_STATUS[ExecutionStatus(self.execution.status)]
        self._record(event_id(RUN_SOURCE, what), RUN_SOURCE, text, (status, level, reason, 0))

    def print(self, source: str, lines: Iterable[LogLine], *, attempt: int = 0) -> int:
        """Log lines that mirror no event. Returns their size in bytes."""
        records = line_records(
            source, lines, at=(self.execution.started_at, self.now), attempt=attempt
        )
        self._lines.append((source, records))
        self.measure(lines_stored(len(records)))
        return sum(map(len, records))

    def measure(self, measure: Measure) -> None:
        """Tell the metrics once this is committed."""
        self._measures.append(measure)

    def nudge(self, name: str, *, after_s: float = 0) -> None:
        """Wake listeners of `name` once this is committed, or `after_s` later."""
        self._nudges[name] = min(after_s, self._nudges.get(name, after_s))

    @property
    def is_touched(self) -> bool:
        return bool(self._changes or self._run_changes or self._lines)

    def write_steps(self) -> None:
        _write_steps(self.keys, self._changes)
        self._changes.clear()

    def write_run(self) -> None:
        values = {**self._run_changes, "updated_at": self.now}
        told = "".join(self.letters)
        if told != self.execution.standings:
            values["standings"] = self.execution.standings = told
        update_rows(Execution, [self.execution.pk], _plain(values))
        self._run_changes.clear()

    def batches(self) -> list[Batch]:
        """Everything said, as it goes to the streams: consecutive lines of a source together."""
        events = Batch(events_topic(self.execution.run_id), "", tuple(self._events))
        topic = logs_topic(self.execution.run_id)
        lines = [
            Batch(topic, source, tuple(chain.from_iterable(records for _, records in group)))
            for source, group in groupby(self._lines, key=lambda line: line[0])
        ]
        return [events, *lines]

    def after_append(self) -> None:
        if self.ends_now:
            for topic in (events_topic, logs_topic):
                close_topic(topic(self.execution.run_id), str(self.execution.status))
            transaction.on_commit(partial(enqueue, "executions.dispatch"))  # a place is free
        if self.execution.backend_kind == "remote-agent" and (self.stops_now or self.ends_now):
            transaction.on_commit(partial(_call_workers, self.execution.run_id))
        measures = tuple(self._measures)
        transaction.on_commit(lambda: _tell(measures), robust=True)  # Django logs no partial
        if any(self.job_states[at] is JobState.PENDING for at in self.started_now):
            self.nudge(WORK_NUDGE)  # who claims within this unit of work needs none
        for name, after_s in self._nudges.items():
            if after_s:
                transaction.on_commit(partial(_nudge_later, name, after_s))
            else:
                nudge(name)
        if self._events:
            nudge(OVERVIEW_NUDGE)

    def _was_counted(self, at: int, what: str) -> bool:
        """Whether a reset left the step's event in its attempt; its row has been read then."""
        repeats = self.known(at, "repeats")
        return bool(repeats) and event_id("", what, attempt=self.attempt(at)) in repeats

    def count(self, at: int, what: str) -> None:
        """Note that this event was said in the step's attempt, so that the next is the second."""
        if not self._was_counted(at, what):
            self._nth(at, what)

    def _nth(self, at: int, what: str) -> int:
        repeats = dict(self.row(at).repeats)
        key = event_id("", what, attempt=self.attempt(at))
        repeats[key] = repeats.get(key, 0) + 1
        self.change(at, repeats=repeats)
        nth: int = repeats[key]
        return nth

    def _record(self, name: str, source: str, text: str, facts: tuple[str, str, str, int]) -> None:
        at = (self.execution.started_at, self.now)
        event, mirror = event_record(name, source, at=at, text=text, facts=facts)
        self._events.append(event)
        self._lines.append((source, (mirror,)))


def open_boards(
    execution_pks: Iterable[UUID], *, rows: Mapping[UUID, Iterable[int]] | None = None
) -> dict[UUID, Board]:
    """The runs, by key, with the step rows at `rows` read too; runs that are gone are left out.

    One to three queries, however many runs and steps.
    """
    pks = sorted(set(execution_pks))
    if not pks:
        return {}
    executions = raise_versions(pks)
    now = clock.now()
    boards = {execution.pk: _board(execution, now) for execution in executions}
    _read_rows(boards, rows or {})
    return boards


def open_board(execution_pk: UUID) -> Board | None:
    return open_boards([execution_pk]).get(execution_pk)


def write_boards(boards: Iterable[Board]) -> None:
    """Store what changed and was said; followers, supervisors and claims learn it after commit."""
    written = [board for board in boards if board.is_touched]
    for board in written:
        board.write_steps()
        board.write_run()
    append([batch for board in written for batch in board.batches()])
    for board in written:
        board.after_append()


def _tell(measures: tuple[Measure, ...]) -> None:
    for measure in measures:
        measure()


def _call_workers(run_id: str) -> None:
    """A hint as all nudges, and of no use when it is late: they ask for orders themselves."""
    enqueue("workers.call_off", run_id, expires_s=_CALLS_WITHIN_S)


def _nudge_later(name: str, after_s: float) -> None:
    """A hint as all nudges: when this process ends before, the sweep finds what is due."""
    timer = threading.Timer(after_s, nudge, [name])
    timer.daemon = True
    timer.start()


def _board(execution: Execution, now: datetime) -> Board:
    letters = list(execution.standings)
    return Board(
        execution=execution,
        run=run_plan(execution.snapshot_id),
        keys=run_rows(execution.pk),
        now=max(now, execution.updated_at),  # time never runs backwards within a run
        statuses=[standings.STATUS_OF[each] for each in letters],
        job_states=[standings.JOB_OF[each] for each in letters],
        letters=letters,
    )


def _read_rows(boards: Mapping[UUID, Board], rows: Mapping[UUID, Iterable[int]]) -> None:
    pks = [boards[pk].keys.step_pks[at] for pk in rows if pk in boards for at in set(rows[pk])]
    for step in read_steps(pks):
        boards[step.execution_id].put_row(step)


def _write_steps(keys: RunRows, changes: Mapping[int, Mapping[str, Any]]) -> None:
    """One UPDATE for each set of equal changes; what differs from row to row in one of its own."""
    plain = {at: _plain(values) for at, values in changes.items()}
    _write_varying(keys, plain)
    groups: dict[str, tuple[dict[str, Any], list[UUID]]] = {}
    for at, values in plain.items():
        if values:
            key = json.dumps(values, sort_keys=True, default=str)
            groups.setdefault(key, (values, []))[1].append(keys.step_pks[at])
    for values, pks in groups.values():
        if update_rows(Step, pks, values) != len(pks):
            raise LostRace


def _write_varying(keys: RunRows, plain: Mapping[int, dict[str, Any]]) -> None:
    """Take log positions out of `plain` and write them together, where they make groups of one."""
    varying = {at: values for at, values in plain.items() if values.keys() >= _VARYING}
    if len({tuple(values[name] for name in _VARYING) for values in varying.values()}) <= 1:
        return
    steps = [
        Step(pk=keys.step_pks[at], **{name: values.pop(name) for name in _VARYING})
        for at, values in varying.items()
    ]
    Step.objects.bulk_update(steps, list(_VARYING))


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Enum members as the text they stand for."""
    return {name: str(value) if isinstance(value, str) else value for name, value in values.items()}
