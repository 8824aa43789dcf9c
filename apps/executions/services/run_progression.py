"""The progression of a run: decide what follows from its state, and apply that.

The caller has loaded the run aggregate and saves it. What a decision holds is in
`domain/progression`; here is what needs rows: words, and limits of the workspace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

from apps.executions import conf
from apps.executions.domain.commands import (
    CancelStep,
    ChangeRun,
    Command,
    EndJob,
    KeepEnvironment,
    ResetStep,
    SkipStep,
    StartStep,
    StepCommand,
    StopJob,
    log_run,
    mock_start,
    queue_entry,
    reset,
    skip,
    stop,
)
from apps.executions.domain.events import in_words
from apps.executions.domain.kept_environments import not_kept_warning
from apps.executions.domain.plan import upstream
from apps.executions.domain.progression import (
    CancelWords,
    RunDecision,
    decide_admission,
    decide_cancellation,
    decide_failure,
    decide_forced_end,
    decide_progress,
)
from apps.executions.domain.states import RunReason, StepStatus
from apps.executions.domain.steps import fill_in, layered_env
from apps.executions.domain.transitions import (
    RunChange,
    StepChange,
    StepState,
    Values,
    step_cancellation,
    stopped_job,
)
from apps.executions.domain.verdict import RunOutcome, run_sentence
from apps.executions.selectors.kept_environments import count_kept
from apps.executions.selectors.runs import cancellation
from apps.executions.selectors.verdicts import failed_step, upstream_cause
from apps.executions.services.run_aggregate import RunAggregate
from apps.executions.services.secrets import overriding
from kernel.agent_protocol import LogLine

Change = StepChange | RunChange
_LOG_LEVELS: Final = ("info", "warn", "error", "debug")


def progress_run(run: RunAggregate) -> None:
    """Apply what follows from the statuses of the steps, up to the end of the run."""
    _apply(run)


def boot(run: RunAggregate) -> None:
    """Admit a queued run: start its time and queue its root steps."""
    _apply(run, decide_admission(run.state(), max_duration=conf.max_duration()))


def cancel_run(run: RunAggregate, reason: str, *, by: str) -> None:
    """Cancel a run that is `Queued` (at once) or `Booting`; else raise IllegalTransition.

    `by` is who asked for it, as people read it.
    """
    _apply(run, decide_cancellation(run.state(), CancelWords(by, reason)))


def fail_run(run: RunAggregate, reason: RunReason, detail: str) -> None:
    """Fail the run as a whole. It has the reason at once and ends when its jobs have stopped."""
    _apply(run, decide_failure(run.state(), reason, detail))


def force_end(run: RunAggregate) -> None:
    """End what is still open after the time for stopping; later reports of it are stale."""
    _apply(run, decide_forced_end(run.state()))


def _apply(run: RunAggregate, decision: RunDecision | None = None) -> None:
    """Carry out a decision, then those that follow from the state after it.

    Each change is made before the next is worked out, because its words may depend on the former.
    """
    while True:
        if decision is None:
            state = run.state()
            decision = decide_progress(state, max_parallel=conf.max_parallel_steps())
            run.replaced, run.deferred_failures = {}, {}
        run.rows.read(decision.reads)
        for command in decision.commands:
            for change in _changes(run, command):
                run.apply(change)
        if not decision.goes_on:
            return
        decision = decision.then


def _changes(run: RunAggregate, command: Command) -> Iterable[Change]:
    """Work out what a command changes, from the state that the changes before it left."""
    match command:
        case StepChange():
            return (command,)
        case ChangeRun():
            return _run_changes(run, command)
        case KeepEnvironment(until):
            limit = conf.max_kept()
            if count_kept(run.execution.workspace_id) < limit:
                return (RunChange({"keep_alive_until": until}),)
            return (RunChange({}, warning=not_kept_warning(limit)),)
        case _:
            return _step_changes(run, command, run.step_state(command.index))


def _step_changes(run: RunAggregate, command: StepCommand, step: StepState) -> Iterable[StepChange]:
    changes: Iterable[StepChange]
    match command:
        case StartStep():
            changes = _start(run, step)
        case SkipStep(_, why):
            cause = [] if why.because is None else run.step(why.because).cause_of_dependents
            changes = (skip(step, why, run.plan, cause),)
        case ResetStep(_, text, cause):
            changes = (reset(step, text, cause),)
        case StopJob(_, reason):
            changes = (stop(step, reason, is_kept=run.execution.has_kept_environment),)
        case CancelStep(_, text):
            changes = (step_cancellation(step, text),)
        case EndJob():
            changes = (stopped_job(step),)
    return changes


def _start(run: RunAggregate, step: StepState) -> Iterable[StepChange]:
    if step.node.kind == "log":
        line = _log_line(run, step.index)
        return log_run(step, line)
    if step.node.kind == "mock":
        timeout = timedelta(milliseconds=run.definition.nodes[step.index]["timeoutMs"])
        fault = run.definition.mock_faults.get(step.index, "")
        return mock_start(step, fault=fault, timeout=timeout)
    return (queue_entry(step, run.execution.backend_label),)


def _run_changes(run: RunAggregate, command: ChangeRun) -> Iterator[RunChange]:
    execution, event = run.execution, command.event
    yield RunChange(_with_detail(run, command.values))
    if command.stores_sentence:
        yield RunChange({"sentence": _sentence(run)})
    if command.ends and execution.log_lines_dropped:
        yield RunChange({}, warning=f"{execution.log_lines_dropped} lines of output were dropped")
    if event:
        yield RunChange({}, (event if event.text else event._replace(text=execution.sentence),))


def _log_line(run: RunAggregate, index: int) -> LogLine:
    """Return the line of a log node, with placeholders filled in and secrets as `***`."""
    definition = run.definition
    node = definition.nodes[index]
    masked = {ref["key"]: "***" for ref in definition.secret_refs(node["id"])}
    overrides = overriding(masked=True)
    env = layered_env(
        node, profile=definition.profile, overrides=overrides, secrets=masked, built_ins={}
    )
    facts = {
        "suite": definition.suite["title"],
        "profile": run.execution.profile,
        "total": str(len(run.statuses)),
        "healthy": str(run.statuses.count(StepStatus.HEALTHY)),
    }
    level = node["variant"] if node["variant"] in _LOG_LEVELS else "info"
    return LogLine(run.now, level, "user", fill_in(node.get("message", ""), env=env, facts=facts))


def _with_detail(run: RunAggregate, values: Values) -> Values:
    """Add the detail of the reason `step_failed`: the step that failed first, and its causes."""
    if values.get("reason") != RunReason.STEP_FAILED:
        return values
    return {**values, "reason_detail": _first_failure(run)}


def _sentence(run: RunAggregate) -> str:
    """Return why the run failed or was canceled; stored, so that lists need no rows of steps."""
    execution = run.execution
    failed = None if execution.reason not in ("", RunReason.STEP_FAILED) else _first_failed(run)
    outcome = RunOutcome(
        run_id=execution.run_id,
        status=execution.status,
        failing=execution.failing,
        reason=execution.reason,
        detail=execution.reason_detail,
        counts=Counter(run.statuses),
        canceled=cancellation(execution),
        failed=[] if failed is None else [failed_step(run.step(failed), run.definition)],
    )
    return run_sentence(outcome)


def _first_failed(run: RunAggregate) -> int | None:
    """Return the step that failed the run: of those that must not fail, the first that ended."""
    nodes = run.plan.nodes
    hard = [
        index
        for index, status in enumerate(run.statuses)
        if status is StepStatus.FAILED and not nodes[index].continue_on_failure
    ]
    rows = run.rows.read(hard)
    return min(hard, key=lambda index: (rows[index].finished_at, index), default=None)


def _first_failure(run: RunAggregate) -> str:
    first = _first_failed(run)
    if first is None:
        return ""
    row = run.step(first)
    causes = row.cause_of_dependents
    if row.cause:
        return in_words(causes)
    before = upstream(run.plan, first)
    rows = run.rows.read(before)
    return in_words([*causes, *upstream_cause(rows[index] for index in before)])
