"""The run aggregate: a run and its steps, loaded for update, changed in memory, saved together.

`load_runs` raises the version of the runs before it reads them. Another transaction that plans one
of these runs waits there, so no completion is planned without knowledge of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from apps.executions import conf
from apps.executions.domain.events import (
    REPEATABLE,
    RUN_EVENT_STATUS,
    RUN_SOURCE,
    event_id,
    split_output,
    work_nudge,
)
from apps.executions.domain.kept_environments import KeepWish
from apps.executions.domain.plan import RunPlan
from apps.executions.domain.progression import (
    CancelWords,
    RunState,
    is_planning,
    open_jobs,
)
from apps.executions.domain.states import (
    CUTS_SHORT,
    STATES_OF,
    ExecutionStatus,
    JobState,
    StatusCode,
    StepStatus,
    status_code_of,
)
from apps.executions.domain.transitions import (
    EventText,
    RunChange,
    StepChange,
    StepState,
)
from apps.executions.models import Execution, Step
from apps.executions.selectors.definitions import (
    RunDefinition,
    remember_snapshot,
    run_definition,
    step_keys,
)
from apps.executions.services.run_outbox import RunOutbox
from apps.executions.services.run_rows import (
    StepRows,
    plain_values,
    raise_versions,
    read_steps,
    update_rows,
)
from apps.streams.api import append
from kernel import clock
from kernel.agent_protocol import LogLine

_job_facts: Final = attrgetter(
    "agent_id", "cancel_reason", "retries_used", "requeues", "cause", "mocks_away_since"
)
_FIRST_ATTEMPTS: Final = {StatusCode.PENDING: 0, StatusCode.QUEUED: 1}


@dataclass(slots=True)
class RunAggregate:
    """A run and its steps. An index is that of a step in the topology, from 0.

    `apply` makes a transition; `change_step` and `change_run` change other columns. `save_runs`
    stores the changes.
    """

    execution: Execution
    definition: RunDefinition
    rows: StepRows
    now: datetime
    statuses: list[StepStatus]
    job_states: list[JobState]
    status_codes: list[str]
    outbox: RunOutbox
    queued_now: list[int] = field(default_factory=list)  # queued within this unit of work
    replaced: dict[int, str] = field(default_factory=dict)  # services that start again, and why
    deferred_failures: dict[int, StepChange] = field(default_factory=dict)  # of their dependents
    _attempts: dict[int, int] = field(default_factory=dict)
    _run_changes: dict[str, object] = field(default_factory=dict)

    @property
    def plan(self) -> RunPlan:
        return self.definition.plan

    @property
    def is_over(self) -> bool:
        return self.execution.finished_at is not None

    @property
    def is_planning(self) -> bool:
        return is_planning(self.execution.status, self.execution.verdict)

    @property
    def not_selected(self) -> set[int]:
        codes = enumerate(self.status_codes)
        return {index for index, code in codes if code == StatusCode.NOT_SELECTED}

    def state(self) -> RunState:
        """Return the run as decisions need it."""
        execution = self.execution
        return RunState(
            plan=self.plan,
            statuses=self.statuses,
            jobs=self.job_states,
            codes=self.status_codes,
            status=ExecutionStatus(execution.status),
            verdict=execution.verdict,
            reason=execution.reason,
            failing=execution.failing,
            is_over=self.is_over,
            keep=KeepWish(execution.keep_alive_ms, execution.keep_only_failed),
            is_kept=execution.has_kept_environment,
            now=self.now,
            cancel_words=CancelWords(execution.canceled_by, execution.cancel_reason),
            replaced=self.replaced,
            replaced_cause=next(filter(None, (self.step(at).cause for at in self.replaced)), ()),
            failures=self.deferred_failures,
            empty_mocks=self.definition.mock_faults.keys(),
        )

    def step_state(self, index: int) -> StepState:
        """Return a step as transitions need it; only the row of an open job is read for it."""
        job = self.job_states[index]
        node, status, attempt = self.plan.nodes[index], self.statuses[index], self.attempt(index)
        facts = _job_facts(self.step(index)) if job is JobState.RUNNING else ()
        return StepState(index, node, status, job, attempt, self.now, self.is_planning, *facts)

    def open_jobs(self) -> tuple[int, ...]:
        return open_jobs(self.job_states)

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
        return self.rows.get(index)

    def apply(self, change: StepChange | RunChange) -> None:
        """Make a change, and emit its events with the status after it."""
        if isinstance(change, RunChange):
            self._apply_to_run(change)
        else:
            self._apply_to_step(change)

    def _apply_to_run(self, change: RunChange) -> None:
        self.change_run(**change.values)
        if change.warning:
            self.warn(change.warning)
        for event in change.events:
            status = RUN_EVENT_STATUS[ExecutionStatus(self.execution.status)]
            self.outbox.emit(RUN_SOURCE, event, status=status)

    def _apply_to_step(self, change: StepChange) -> None:
        index, values = change.index, change.values
        job = self.job_states[index]
        if change.output:
            self.keep_output(index, change.output)
        if change.attempt_end:
            self._trace(index, *change.attempt_end)
        if self.statuses[index] is StepStatus.SKIPPED and not self.event_count(index, "skipped"):
            # a reset: the next one in this attempt is its second
            self._event_number(index, "skipped", is_repeatable=True)
        self.change_step(index, **values)
        if values.get("finished_at"):
            self._record_end(index, str(values.get("reason", "")))
        self._follow_job(index, job, change)
        for event in change.events:
            self.emit_step_event(index, *event)

    def _follow_job(self, index: int, before: JobState, change: StepChange) -> None:
        """Note what the change of a job brings about later in this unit of work, or after it."""
        after = self.job_states[index]
        if before is JobState.NONE and after is JobState.PENDING:
            self.queued_now.append(index)
        elif before is JobState.NONE and after is JobState.RUNNING:
            self.outbox.mocks_wait = True
        if change.replaced and self.plan.nodes[index].kind == "service":
            self.replaced[index] = change.replaced
        if change.values.get("cancel_reason") in CUTS_SHORT:
            self.outbox.jobs_stop = True
        if change.nudge:
            self.nudge(change.nudge.name, after_s=change.nudge.after_s)

    def _trace(self, index: int, status: str, reason: str) -> None:
        since = self.rows.known_value(index, "started_at")
        if since is None and status == StepStatus.FAILED:
            since = self.rows.known_value(index, "queued_at")
        if since is not None:
            node, attempt = self.plan.nodes[index], self.attempt(index)
            self.outbox.trace_attempt(node, attempt, since, status, reason)

    def _record_end(self, index: int, reason: str) -> None:
        kind, status = self.plan.nodes[index].kind, str(self.statuses[index])
        self._trace(index, status, reason)
        started_at = self.step(index).started_at if self.rows.is_read(index) else None
        self.outbox.count_finished_step(kind, status, reason, started_at)

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
                repeats=bool(values.get("repeats") or self.rows.known_value(index, "repeats")),
                reason=values.get("reason", ""),
            )
        self.rows.change(index, values)

    def change_run(self, **values: Any) -> None:
        if "finished_at" in values:
            self.outbox.run_ends = True
        self._run_changes.update(values)
        for name, value in values.items():
            setattr(self.execution, name, value)

    def emit_step_event(
        self, index: int, what: str, text: str, level: str = "info", reason: str = ""
    ) -> None:
        """Add an event with the present status of the step, and the log line that repeats it."""
        self.outbox.emit(
            self.plan.nodes[index].id,
            EventText(what, text, level, reason),
            status=str(self.statuses[index]),
            attempt=self.attempt(index),
            nth=self._event_number(index, what, is_repeatable=what in REPEATABLE),
        )

    def event_count(self, index: int, what: str) -> int:
        """Return how many repeatable events of this name the attempt has."""
        key = event_id("", what, attempt=self.attempt(index))
        return int(self.step(index).repeats.get(key, 0))

    def _event_number(self, index: int, what: str, *, is_repeatable: bool) -> int:
        """Return the number of a new event among those of its name in the attempt, and keep it.

        Of others than repeatable ones it is kept if a reset left one; the row was read then.
        """
        known = self.rows.known_value(index, "repeats")
        if not is_repeatable and not known:
            return 1
        key = event_id("", what, attempt=self.attempt(index))
        if not is_repeatable and key not in known:
            return 1
        repeats: dict[str, int] = dict(self.step(index).repeats)
        repeats[key] = repeats.get(key, 0) + 1
        self.change_step(index, repeats=repeats)
        return repeats[key]

    def keep_output(self, index: int, lines: Sequence[LogLine]) -> None:
        """Append the lines that the log of the run keeps, and count what is dropped."""
        execution = self.execution
        is_full = execution.log_bytes >= conf.log_max_bytes()
        logs = self.definition.profile["observability"].get("logs", True)
        kept, dropped = split_output(lines, logs=logs, is_full=is_full)
        if dropped:
            if not execution.log_lines_dropped:
                limit = f"the log limit of {conf.log_max_bytes()} bytes is reached"
                self.warn(f"{limit}: further output is dropped")
            self.change_run(log_lines_dropped=execution.log_lines_dropped + dropped)
        if kept:
            source, attempt = self.plan.nodes[index].id, self.attempt(index)
            size = self.outbox.append_log(source, kept, attempt=attempt)
            self.change_run(log_bytes=execution.log_bytes + size)

    def warn(self, text: str) -> None:
        """Append a warning about the run to its log."""
        self.outbox.append_log(RUN_SOURCE, [LogLine(self.now, "warn", "system", text)])

    def nudge(self, name: str, *, after_s: float = 0) -> None:
        """Wake listeners of `name` once this is committed, or `after_s` later."""
        self.outbox.nudge(name, after_s=after_s)

    @property
    def is_changed(self) -> bool:
        return bool(self.rows.changes or self._run_changes or self.outbox.has_lines)

    def write(self) -> None:
        self.rows.write()
        values = {**self._run_changes, "updated_at": self.now}
        standings = "".join(self.status_codes)
        if standings != self.execution.standings:
            values["standings"] = self.execution.standings = standings
        update_rows(Execution, [self.execution.pk], plain_values(values))
        self._run_changes.clear()

    def send(self) -> None:
        if any(self.job_states[index] is JobState.PENDING for index in self.queued_now):
            # steps claimed within this unit of work need none
            self.nudge(work_nudge(self.execution.bound_agent_id))
        self.outbox.send()


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
        runs[pk].rows.keys.step_pks[index] for pk, indexes in wanted.items() for index in indexes
    ]
    for step in read_steps(step_pks):
        runs[step.execution_id].rows.put(step)
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
    append([batch for run in changed for batch in run.outbox.batches()])
    for run in changed:
        run.send()


def _aggregate(execution: Execution, now: datetime) -> RunAggregate:
    codes = list(execution.standings)
    remember_snapshot(execution.pk, execution.snapshot_id)
    now = max(now, execution.updated_at)  # time never runs backwards within a run
    return RunAggregate(
        execution=execution,
        definition=run_definition(execution.snapshot_id),
        rows=StepRows(step_keys(execution.pk)),
        now=now,
        statuses=[STATES_OF[code][0] for code in codes],
        job_states=[STATES_OF[code][1] for code in codes],
        status_codes=codes,
        outbox=RunOutbox(execution, now),
    )
