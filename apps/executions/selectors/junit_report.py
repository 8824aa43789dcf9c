"""The results of a run as JUnit XML, with the verdict on what failed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from apps.accounts.api import Principal
from apps.executions.domain import junit
from apps.executions.domain.junit import Case, Outcome, SuiteOfStep
from apps.executions.domain.phrases import failure_phrase
from apps.executions.domain.states import StepStatus
from apps.executions.domain.verdict import StepVerdict
from apps.executions.models import Artifact, Execution, Step
from apps.executions.selectors.artifact_bytes import contents_of
from apps.executions.selectors.artifacts import cases_of
from apps.executions.selectors.runs import get_execution
from apps.executions.selectors.verdicts import read_verdict
from kernel import clock

_OUTCOMES: Final[dict[str, Outcome]] = {
    StepStatus.HEALTHY: "passed",
    StepStatus.FAILED: "failure",
}
_TEST: Final = "test"  # a kind of steps


def junit_document(principal: Principal, run_id: str) -> bytes:
    """Return one `testsuite` per test and step with a report; raise ExecutionNotFound.

    The properties of each say what became of the run; those of a failed step have its last lines
    as `system-out`.

    It has the cases that the last attempt reported. A test without a report is one case itself.
    So is another step that failed: it is an error, which a CI system would otherwise not see.
    The property `lostReports` names reports that the storage of artifacts no longer has.
    """
    row = get_execution(principal, run_id)
    steps = list(Step.objects.filter(execution=row).order_by("index"))
    verdict = read_verdict(row, steps)
    failed = {step["stepId"]: step for step in verdict["steps"]}
    reported, lost = _reported_cases(row)
    with_cases = {step_id for (step_id, _), cases in reported.items() if cases}
    suites = [
        _suite_of(step, reported.get((step.step_id, step.attempt), ()), failed.get(step.step_id))
        for step in steps
        if step.kind == _TEST or step.status == StepStatus.FAILED or step.step_id in with_cases
    ]
    properties = {"run": row.run_id, "status": row.status, "verdict": verdict["sentence"]}
    if lost:
        properties["lostReports"] = ", ".join(lost)
    return junit.as_junit(f"{row.suite_title} {row.run_id}", suites, properties)


def _reported_cases(row: Execution) -> tuple[dict[tuple[str, int], list[Case]], list[str]]:
    """Return (step id, attempt) → cases, and the reports that their storage no longer has.

    Holds the bytes of one report at a time.

    Raise StorageUnavailable: a report without its cases would look as if all had passed.
    """
    found = row.artifacts.filter(repeat=None, format__in=junit.REPORT_FORMATS)
    reports = list(found.order_by("created_at", "path"))
    by_content: dict[str, list[Artifact]] = defaultdict(list)
    for report in reports:
        by_content[report.sha256].append(report)
    cases: dict[tuple[str, int], list[Case]] = defaultdict(list)
    lost: list[str] = []
    for digest, body in contents_of(reports):
        for report in by_content[digest]:
            if body is None:
                lost.append(f"{report.step_id}/{report.attempt}/{report.path}")
            else:
                cases[report.step_id, report.attempt] += cases_of(report.format, body)
    return cases, lost


def _suite_of(step: Step, cases: Iterable[Case], failed: StepVerdict | None) -> SuiteOfStep:
    return SuiteOfStep(
        name=step.step_id,
        cases=tuple(cases) or (_step_as_case(step),),
        started_at=clock.rfc3339(step.started_at) if step.started_at else "",
        output="" if failed is None else _output_of(failed),
    )


def _output_of(failed: StepVerdict) -> str:
    lines = [failed["sentence"], *failed["causes"], *(line["text"] for line in failed["lines"])]
    return "\n".join([*lines, "the step wrote nothing"] if failed["wroteNothing"] else lines)


def _step_as_case(step: Step) -> Case:
    outcome = _OUTCOMES.get(step.status, "skipped")
    span = step.finished_at - step.started_at if step.finished_at and step.started_at else None
    return Case(
        name=step.name,
        classname=step.step_id,
        outcome=outcome,
        seconds=None if span is None else max(0.0, span.total_seconds()),
        message="" if outcome == "passed" else _message_of(step),
        kind=step.reason,
        text=step.detail,
    )


def _message_of(step: Step) -> str:
    if not step.reason:
        return step.status
    phrase = failure_phrase(step.reason, step.detail, step.exit_code)
    return phrase.about(step.step_id) if step.status == StepStatus.FAILED else phrase.alone
