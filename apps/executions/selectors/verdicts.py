"""The verdict on a run, read from the store: its failed steps and what they left behind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from apps.executions.domain import junit
from apps.executions.domain.events import CauseLink
from apps.executions.domain.phrases import clip, plain_text
from apps.executions.domain.plan import upstream
from apps.executions.domain.states import StepStatus
from apps.executions.domain.verdict import (
    MAX_CASES,
    MAX_CHARACTERS,
    MAX_LINES,
    MAX_STEPS,
    FailedStep,
    RunOutcome,
    RunVerdict,
    StepEvidence,
    VerdictCase,
    verdict_of,
)
from apps.executions.models import Artifact, Execution, Step
from apps.executions.selectors.artifacts import FailedCase, failed_cases_in
from apps.executions.selectors.definitions import RunDefinition, run_definition
from apps.executions.selectors.logs import last_lines
from apps.executions.selectors.runs import cancellation

_MAX_REPORTS: Final = 20  # of one step


def read_verdict(row: Execution, steps: Sequence[Step] | None = None) -> RunVerdict:
    """Return the verdict on a run; `steps` are all of its rows if they were read before.

    A run without failed steps needs no further query. Otherwise the reports are read in one, and
    the last lines of at most `MAX_STEPS` steps.
    """
    if steps is None:
        steps = list(Step.objects.filter(execution=row).order_by("index"))
    definition = run_definition(row.snapshot_id)
    failed = _failed_rows(steps, definition)
    outcome = RunOutcome(
        run_id=row.run_id,
        status=row.status,
        failing=row.failing,
        reason=row.reason,
        detail=row.reason_detail,
        counts=Counter(step.status for step in steps),
        canceled=cancellation(row),
        failed=[_with_upstream_cause(step, steps, definition) for step in failed[:MAX_STEPS]],
    )
    return verdict_of(outcome, _evidence(row, failed[:MAX_STEPS], definition))


def failed_step(
    step: Step, definition: RunDefinition, cause: Sequence[CauseLink] = ()
) -> FailedStep:
    """Return the facts of a failed step; `cause` is that of a step before it, if it has none."""
    return FailedStep(
        step_id=step.step_id,
        reason=step.reason,
        detail=step.detail,
        exit_code=step.exit_code,
        cause=step.cause or cause,
        may_fail=definition.plan.nodes[step.index - 1].continue_on_failure,
        has_run=step.unit_started_at is not None,
    )


def _failed_rows(steps: Iterable[Step], definition: RunDefinition) -> list[Step]:
    """Return the failed steps, those that fail the run first, then in the order they ended."""
    nodes = definition.plan.nodes
    failed = [step for step in steps if step.status == StepStatus.FAILED]
    return sorted(
        failed,
        key=lambda step: (nodes[step.index - 1].continue_on_failure, step.finished_at, step.index),
    )


def _with_upstream_cause(
    step: Step, steps: Sequence[Step], definition: RunDefinition
) -> FailedStep:
    before = [steps[index] for index in upstream(definition.plan, step.index - 1)]
    return failed_step(step, definition, upstream_cause(before))


def upstream_cause(before: Iterable[Step]) -> list[CauseLink]:
    """Return the cause in the nearest dependency that failed too, or that was lost or retried."""
    for step in before:
        if step.status == StepStatus.FAILED:
            return step.cause_of_dependents
        if step.cause and step.status != StepStatus.SKIPPED:
            return list(step.cause)
    return []


@dataclass(slots=True)
class _FoundCases:
    """The failed test cases of a step: the first ones, and how many there are."""

    cases: list[VerdictCase] = field(default_factory=list)
    total: int = 0
    reports: int = 0


def _evidence(
    row: Execution, failed: Sequence[Step], definition: RunDefinition
) -> dict[str, StepEvidence]:
    if not failed:
        return {}
    found = _found_cases(row, failed)
    keeps_output = definition.profile["observability"].get("logs", True)
    return {
        step.step_id: StepEvidence(
            lines=[
                {"number": number, "text": clip(plain_text(line.text), MAX_CHARACTERS)}
                for number, line in last_lines(row.run_id, step.step_id, count=MAX_LINES)
            ],
            cases=found[step.step_id].cases,
            total_cases=found[step.step_id].total,
            is_output_known=keeps_output and not row.log_lines_dropped,
        )
        for step in failed
    }


def _found_cases(row: Execution, failed: Sequence[Step]) -> dict[str, _FoundCases]:
    attempts = {step.step_id: step.attempt for step in failed}
    reports = row.artifacts.filter(
        repeat=None, format__in=junit.REPORT_FORMATS, step_id__in=list(attempts)
    )
    found: dict[str, _FoundCases] = defaultdict(_FoundCases)
    for report in reports.order_by("created_at", "path"):
        if attempts[report.step_id] == report.attempt:
            _add_cases(found[report.step_id], report)
    return found


def _add_cases(found: _FoundCases, report: Artifact) -> None:
    summary = report.test_summary or {}
    wrong = summary.get("failures", 0) + summary.get("errors", 0)
    found.total += wrong
    if wrong and len(found.cases) < MAX_CASES and found.reports < _MAX_REPORTS:
        found.reports += 1
        found.cases += [_verdict_case(case) for case in failed_cases_in(report)[:MAX_CASES]]


def _verdict_case(case: FailedCase) -> VerdictCase:
    message = case.message.strip() or case.text.strip().partition("\n")[0]
    return {
        "name": clip(plain_text(case.name), MAX_CHARACTERS),
        "classname": clip(plain_text(case.classname), MAX_CHARACTERS),
        "message": clip(" ".join(plain_text(message).split()), MAX_CHARACTERS),
    }
