"""The progression of a run: decide what follows from its state, and apply that.

The caller has loaded the run aggregate and saves it. What a decision holds is in
`domain/progression`; here is what needs rows: words, and limits of the workspace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import chain
from typing import Final

from apps.executions import conf
from apps.executions.domain.commands import (
    ChangeRun,
    Command,
    KeepEnvironment,
    SkipSteps,
    StartSteps,
    StopJobs,
    log_run,
    mock_start,
    queue_entry,
    skip,
    stop,
)
from apps.executions.domain.events import in_words
from apps.executions.domain.plan import Skip, upstream
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
from apps.executions.domain.transitions import RunChange, StepChange, Values
from apps.executions.domain.verdict import RunOutcome, run_sentence
from apps.executions.selectors.runs import cancellation
from apps.executions.selectors.verdicts import chain_from, failed_step, upstream_cause
from apps.executions.services import kept_environments
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
            decision = decide_progress(run.state(), max_parallel=conf.max_parallel_steps())
            run.replaced, run.deferred_failures = {}, {}
        run.rows.read(decision.reads)
        for command in decision.commands:
            for change in _changes(run, command):
                run.apply(change)
        if not decision.goes_on:
            return
        decision = decision.then


def _changes(run: RunAggregate, command: Command) -> Iterator[Change]:
    match command:
        case StepChange():
            yield command
        case ChangeRun():
            yield from _run_changes(run, command)
        case SkipSteps(reasons):
            yield from (_skip(run, index, why) for index, why in reasons.items())
        case StartSteps(indexes):
            yield from chain.from_iterable(_start(run, index) for index in indexes)
        case KeepEnvironment():
            yield kept_environments.keeping(run.execution, run.now)
        case StopJobs(indexes, reason):
            is_kept = run.execution.has_kept_environment
            yield from (stop(run.step_state(index), reason, is_kept=is_kept) for index in indexes)
        case _:
            yield from (command.change(run.step_state(index)) for index in command.indexes)


def _run_changes(run: RunAggregate, command: ChangeRun) -> Iterator[RunChange]:
    execution, event = run.execution, command.event
    yield RunChange(_with_detail(run, command.values))
    if command.ends:
        yield kept_environments.kept_from_end(execution, run.now)
    if command.stores_sentence:
        yield RunChange({"sentence": _sentence(run)})
    if command.ends and execution.log_lines_dropped:
        yield RunChange({}, warning=f"{execution.log_lines_dropped} lines of output were dropped")
    if event:
        yield RunChange({}, (event if event.text else event._replace(text=execution.sentence),))


def _skip(run: RunAggregate, index: int, why: Skip) -> StepChange:
    cause = [] if why.because is None else chain_from(run.step(why.because))
    return skip(run.step_state(index), why, run.plan, cause)


def _start(run: RunAggregate, index: int) -> Iterable[StepChange]:
    """Queue a step; a log node and a mock are the dispatcher's, which starts them at once."""
    step = run.step_state(index)
    if step.node.kind == "log":
        return log_run(step, _log_line(run, index))
    if step.node.kind == "mock":
        timeout = timedelta(milliseconds=run.definition.nodes[index]["timeoutMs"])
        return mock_start(step, fault=run.definition.mock_faults.get(index, ""), timeout=timeout)
    return (queue_entry(step, run.execution.backend_label),)


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
    causes = chain_from(row)
    if row.cause:
        return in_words(causes)
    before = upstream(run.plan, first)
    rows = run.rows.read(before)
    return in_words([*causes, *upstream_cause(rows[index] for index in before)])
