"""The verdicts of a run's steps as JUnit XML."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from apps.accounts.api import Principal
from apps.executions.domain import junit
from apps.executions.domain.junit import Case, Outcome, SuiteOfStep
from apps.executions.domain.states import StepStatus
from apps.executions.models import Artifact, Blob, Execution, Step
from apps.executions.selectors.scope import get_execution
from kernel import clock

_OUTCOMES: Final[dict[str, Outcome]] = {
    StepStatus.HEALTHY: "passed",
    StepStatus.FAILED: "failure",
}


def junit_document(principal: Principal, run_id: str) -> bytes:
    """One `testsuite` per step: the cases of its last attempt's reports, else the step as one case.

    Raises ExecutionNotFound.
    """
    row = get_execution(principal, run_id)
    reported = _reported_cases(row)
    suites = [
        _suite_of(step, reported.get((step.step_id, step.attempt), ()))
        for step in Step.objects.filter(execution=row).order_by("index")
    ]
    return junit.as_junit(f"{row.suite_title} {row.run_id}", suites)


def _reported_cases(row: Execution) -> dict[tuple[str, int], list[Case]]:
    """(step id, attempt) → cases; one report's bytes are held at a time."""
    reports = row.artifacts.filter(format__in=junit.REPORT_FORMATS).order_by("created_at", "path")
    by_content: dict[str, list[Artifact]] = defaultdict(list)
    for report in reports:
        by_content[report.sha256].append(report)
    cases: dict[tuple[str, int], list[Case]] = defaultdict(list)
    blobs = Blob.objects.filter(sha256__in=list(by_content)).values_list("sha256", "data")
    for digest, body in blobs.iterator(chunk_size=1):
        for report in by_content[digest]:
            cases[report.step_id, report.attempt] += _cases_of(report.format, bytes(body))
    return cases


def _cases_of(format_: str, body: bytes) -> tuple[Case, ...]:
    """Nothing for an unreadable report: an event of the run already says so."""
    try:
        return junit.read_cases(format_, body)
    except junit.ReportUnreadable:
        return ()


def _suite_of(step: Step, cases: Iterable[Case]) -> SuiteOfStep:
    return SuiteOfStep(
        name=step.step_id,
        cases=tuple(cases) or (_step_as_case(step),),
        started_at=clock.rfc3339(step.started_at) if step.started_at else "",
    )


def _step_as_case(step: Step) -> Case:
    outcome = _OUTCOMES.get(step.status, "skipped")
    span = step.finished_at - step.started_at if step.finished_at and step.started_at else None
    return Case(
        name=step.name,
        classname=step.step_id,
        outcome=outcome,
        seconds=None if span is None else max(0.0, span.total_seconds()),
        message=step.detail or step.reason or ("" if outcome == "passed" else step.status),
        kind=step.reason,
        text=step.detail,
    )
