"""Batches of agent reports: what happened to the jobs of a supervisor, and its claims, together."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from django.db.models import QuerySet

from apps.executions.domain import transitions
from apps.executions.domain.agent_reports import (
    JobNotFound,
    LogGap,
    Recorded,
    ReportBatchResult,
    StaleAttempt,
    SupervisorSession,
)
from apps.executions.domain.events import WORK_NUDGE
from apps.executions.domain.plan import upstream
from apps.executions.domain.retry_rules import StepFailure, reason_of
from apps.executions.domain.states import JobState, StepReason, StepStatus
from apps.executions.domain.transitions import StepChange, StepState
from apps.executions.models import Artifact, Step
from apps.executions.selectors.definitions import JobIndex, indexes_of_jobs
from apps.executions.services.claims import (
    ClaimedSteps,
    claim_steps,
    served_backends,
    specs_of,
)
from apps.executions.services.expected_calls import NAME as CALLS_NAME
from apps.executions.services.expected_calls import PATH as CALLS_PATH
from apps.executions.services.expected_calls import CallReport, call_reports, keep_report
from apps.executions.services.mock_resets import with_mocks_reset
from apps.executions.services.run_aggregate import RunAggregate, load_runs, save_runs
from apps.executions.services.run_progression import progress_run
from apps.executions.services.step_queue import (
    ensure_queues,
    has_step_limits,
    lock_step_queue,
    queue_names,
)
from apps.executions.services.unit_states import record_state
from apps.observability.api import metrics
from apps.platform_settings.api import recent_settings
from apps.streams.api import unit_of_work
from kernel.agent_protocol import Completion, LogChunk, MissingArtifact, StateReport
from kernel.errors import InvalidInput, PlatformError

Report = TypeVar("Report", StateReport, LogChunk, Completion)
Record = Callable[[RunAggregate, int, Report], Recorded]
Result = Recorded | PlatformError


class _Reports(NamedTuple):
    """What a supervisor reports; `calls` of mocks by job id, of steps that expect some."""

    states: Sequence[StateReport]
    chunks: Sequence[LogChunk]
    completions: Sequence[Completion]
    calls: Mapping[str, CallReport]


class _ClaimWish(NamedTuple):
    """Up to `limit` steps, and the queues in which other claims share places with it."""

    limit: int
    looks_around: bool
    queues: tuple[str, ...]


def record_reports(
    supervisor: SupervisorSession,
    *,
    states: Sequence[StateReport] = (),
    chunks: Sequence[LogChunk] = (),
    completions: Sequence[Completion] = (),
    claims: int = 0,
    looks_around: bool = True,
) -> ReportBatchResult:
    """Record every report in this order, progress the runs, and claim up to `claims` steps.

    `looks_around` False claims only steps that these reports queue; it saves a query for callers
    that searched a moment ago and were not nudged since.
    A refused report (its result is StaleAttempt, LogGap, JobNotFound or InvalidInput) does not
    affect the others. The calls of mocks are read before the transaction; mocks are reset and
    secrets resolved after it.
    """
    reports = _Reports(states, chunks, completions, call_reports(completions))
    with recent_settings():
        queues = queue_names(served_backends(supervisor)) if claims else []
        ensure_queues(queues)
        claim = _ClaimWish(claims, looks_around, tuple(queues))
        results, claimed = _record_reports(supervisor, reports, claim)
        return ReportBatchResult(
            states=results[0],
            chunks=results[1],
            completions=results[2],
            claimed=specs_of(claimed._replace(steps=with_mocks_reset(claimed.steps))),
        )


@unit_of_work
def _record_reports(
    supervisor: SupervisorSession, reports: _Reports, claim: _ClaimWish
) -> tuple[tuple[tuple[Result, ...], ...], ClaimedSteps]:
    queue = lock_step_queue(claim.queues)
    batch = _ReportBatch(supervisor, [*reports.states, *reports.chunks, *reports.completions])
    results = (
        batch.apply(reports.states, record_state),
        batch.apply(reports.chunks, _record_chunk),
        batch.complete(reports.completions, reports.calls),
    )
    for run in batch.runs.values():
        progress_run(run)
    claimed = claim_steps(
        supervisor, batch.runs, limit=claim.limit, looks_around=claim.looks_around, queue=queue
    )
    if reports.completions and has_step_limits():
        for run in batch.runs.values():
            run.nudge(WORK_NUDGE)  # a place is free that a step of another run may wait for
    save_runs(batch.runs.values())
    return results, claimed


class _ReportBatch:
    """Reports of a supervisor, and the runs that they are about."""

    def __init__(self, supervisor: SupervisorSession, reports: Iterable[Any]) -> None:
        self._supervisor = supervisor
        self._indexes: dict[str, JobIndex] = indexes_of_jobs(
            report.job.job_id for report in reports
        )
        steps: dict[UUID, list[int]] = defaultdict(list)
        for execution_pk, index in self._indexes.values():
            steps[execution_pk].append(index)
        self.runs: dict[UUID, RunAggregate] = load_runs(steps, steps=steps)

    def apply(self, reports: Sequence[Report], record: Record[Report]) -> tuple[Result, ...]:
        return tuple(self._apply(report, record) for report in reports)

    def complete(
        self, completions: Sequence[Completion], calls: Mapping[str, CallReport]
    ) -> tuple[Result, ...]:
        """Apply completions of services first; return the results in the given order."""

        def record(run: RunAggregate, index: int, completion: Completion) -> Recorded:
            return _record_completion(run, index, completion, calls.get(completion.job.job_id))

        order = sorted(
            range(len(completions)), key=lambda nth: not self._is_service(completions[nth])
        )
        results = {nth: self._apply(completions[nth], record) for nth in order}
        return tuple(results[nth] for nth in range(len(completions)))

    def _is_service(self, report: Any) -> bool:
        found = self._find(report.job.job_id)
        return found is not None and found[0].plan.nodes[found[1]].kind == "service"

    def _apply(self, report: Report, record: Record[Report]) -> Result:
        found = self._find(report.job.job_id)
        if found is None:
            return JobNotFound()
        run, index = found
        step = run.step(index)
        try:
            if is_repeated(step, self._supervisor, report):
                return Recorded(next_seq=step.next_seq)
            refuse_stale(step, self._supervisor, report.job.attempt)
            return record(run, index, report)
        except PlatformError as refusal:  # each is raised before anything is changed
            if isinstance(refusal, StaleAttempt):
                metrics.count("partita.agent.stale_reports")
            return refusal

    def _find(self, job_id: str) -> tuple[RunAggregate, int] | None:
        execution_pk, index = self._indexes.get(job_id, (None, 0))
        run = self.runs.get(execution_pk) if execution_pk else None
        return None if run is None else (run, index)


def refuse_stale(step: Step, supervisor: SupervisorSession, attempt: int) -> None:
    """Raise StaleAttempt unless this process of the supervisor holds this attempt now.

    (reference: control-plane 15.2)
    """
    if (
        step.job_state != JobState.RUNNING
        or step.attempt != attempt
        or step.agent_id != supervisor.agent_id
        or step.incarnation != supervisor.incarnation
    ):
        raise StaleAttempt


def is_repeated(step: Step, supervisor: SupervisorSession, report: object) -> bool:
    """Return whether a supervisor that lost the response sends the same completion again."""
    return (
        isinstance(report, Completion)
        and bool(step.last_completion)
        and step.last_completion == _fingerprint(supervisor.agent_id, report)
    )


def _record_chunk(run: RunAggregate, index: int, chunk: LogChunk) -> Recorded:
    row = run.step(index)
    if chunk.seq > row.next_seq:
        raise LogGap(row.next_seq)
    fresh = chunk.lines[row.next_seq - chunk.seq :]
    position = max(row.position, chunk.position)
    if fresh or position != row.position:
        run.keep_output(index, fresh)
        run.change_step(index, next_seq=row.next_seq + len(fresh), position=position)
    return _record_of(row)


def _record_completion(
    run: RunAggregate, index: int, completion: Completion, calls: CallReport | None
) -> Recorded:
    row = run.step(index)
    if completion.final_seq is not None and completion.final_seq > row.next_seq:
        raise LogGap(row.next_seq)
    require_outcome(completion)
    usage = (
        transitions.usage_values(completion.usage, peak_before=row.memory_peak_bytes)
        if completion.usage
        else {}
    )
    run.change_step(index, **usage, last_completion=_fingerprint(row.agent_id, completion))
    if calls:
        keep_report(run, index, calls)
    _emit_artifacts(run, index)
    _warn_of_missing(run, index, completion.missing_artifacts)
    missed = calls.failures if calls else ""
    for change in _end_changes(run, index, completion, missed=missed):
        run.apply(change)
    return _record_of(row)


def require_outcome(completion: Completion) -> None:
    """Raise InvalidInput for a completion with an unknown status."""
    if completion.outcome not in ("succeeded", "failed", "canceled"):
        raise InvalidInput(
            f"status must be succeeded, failed or canceled, not {completion.status!r}"
        )


def _end_changes(
    run: RunAggregate, index: int, completion: Completion, *, missed: str
) -> Sequence[StepChange]:
    """Return what a completion changes; `missed` are calls of mocks that did not come."""
    step = run.step_state(index)
    if completion.outcome == "canceled":
        return [_canceled_attempt(step, has_begun=run.step(index).unit_started_at is not None)]
    if step.status is StepStatus.HEALTHY:
        return _service_end(step, completion)
    if completion.outcome == "failed":
        return _step_failure(run, step, completion)
    return [_good_end(run, step, completion, missed=missed)]


def _canceled_attempt(step: StepState, *, has_begun: bool) -> StepChange:
    if step.cancel_reason:
        return transitions.stopped_job(step)
    if has_begun:
        return transitions.expiry(step, "the supervisor gave up")
    text = "the supervisor released it before the container started"
    return transitions.release(step, text)


def _step_failure(
    run: RunAggregate, step: StepState, completion: Completion
) -> Sequence[StepChange]:
    """Fail a step. If a service of it was replaced in this batch, a reset may come first."""
    reason = reason_of(completion.reason)
    # what the reports count says more than that test tools exit with 1
    tests = _test_failures(run, step.index) if reason is StepReason.EXIT_NONZERO else ""
    detail = "; ".join(filter(None, [completion.error, tests]))
    failed = transitions.failure(step, StepFailure(reason, detail, completion.exit_code))
    if run.replaced.keys().isdisjoint(upstream(run.plan, step.index)):
        return [failed]
    run.deferred_failures[step.index] = failed
    return []


def _service_end(step: StepState, completion: Completion) -> Sequence[StepChange]:
    exited = StepReason.SERVICE_EXITED
    if step.cancel_reason:
        has_failed = completion.outcome == "failed"
        cause = [transitions.exit_cause(step, exited)] if has_failed else []
        return [*cause, transitions.stopped_job(step)]
    text = completion.error or "the service exited"
    return [transitions.failure(step, StepFailure(exited, text, completion.exit_code))]


def _good_end(
    run: RunAggregate, step: StepState, completion: Completion, *, missed: str
) -> StepChange:
    """Let a step end well, unless a report has failures or calls of mocks were `missed`."""
    code = completion.exit_code
    if step.node.kind == "service":
        text = "the service exited before it was ready"
        return transitions.failure(step, StepFailure(StepReason.SERVICE_EXITED, text, code))
    if failures := "; ".join(filter(None, [_test_failures(run, step.index), missed])):
        return transitions.failure(step, StepFailure(StepReason.TEST_FAILURES, failures, code))
    return transitions.success(step, "ended as expected", exit_code=code)


def _test_failures(run: RunAggregate, index: int) -> str:
    return failed_tests(run.definition.nodes[index], _artifacts(run, index))


def failed_tests(node: Mapping[str, Any], artifacts: QuerySet[Artifact, Artifact]) -> str:
    """Return the failures that the reports of an attempt count, in words.

    Empty if there are none, or if the node expects an exit code other than 0.
    """
    exports = node.get("artifactExports", ())
    if not any(export["format"] in ("junit", "ctrf") for export in exports):
        return ""
    if node.get("evaluation", {}).get("expectExit", 0):
        return ""
    reports = artifacts.values_list("path", "name", "test_summary")
    calls = (CALLS_PATH, CALLS_NAME)  # a step may export a file of this path, too
    counted = [summary for path, name, summary in reports if summary and (path, name) != calls]
    failures = sum(summary["failures"] for summary in counted)
    errors = sum(summary["errors"] for summary in counted)
    total = sum(summary["total"] for summary in counted)
    wrong = failures + errors
    return f"{wrong} of {total} test{'' if total == 1 else 's'} failed" if wrong else ""


def _artifacts(run: RunAggregate, index: int) -> QuerySet[Artifact, Artifact]:
    return Artifact.objects.filter(
        execution_id=run.execution.pk,
        repeat=None,
        step_id=run.plan.nodes[index].id,
        attempt=run.attempt(index),
    )


def _emit_artifacts(run: RunAggregate, index: int) -> None:
    node = run.definition.nodes[index]
    if not node.get("artifactExports") and not node.get("expectCalls"):
        return
    paths = list(_artifacts(run, index).order_by("created_at").values_list("path", flat=True))
    if paths:
        run.emit_step_event(index, "artifacts", f"kept {', '.join(paths)}")


def _warn_of_missing(run: RunAggregate, index: int, missing: Sequence[MissingArtifact]) -> None:
    """Keep which declared artifacts the attempt did not leave, with an event for each."""
    if not missing:
        return
    rows = [{"path": each.path, **({"hint": each.hint} if each.hint else {})} for each in missing]
    run.change_step(index, missing_artifacts=rows)
    for each in missing:
        hint = f": {each.hint}" if each.hint else ""
        text = f"{run.step(index).name} left no file {each.path}{hint}"
        run.emit_step_event(index, "artifacts", text, level="warn")


def _record_of(row: Step) -> Recorded:
    return Recorded(next_seq=row.next_seq, cancel_reason=row.cancel_reason)


def _fingerprint(agent_id: str, completion: Completion) -> str:
    """Return a hash that identical completions of an attempt share."""
    parts = (
        agent_id,
        completion.job.attempt,
        completion.outcome,
        completion.reason,
        completion.error,
        completion.exit_code,
        completion.final_seq,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:40]
