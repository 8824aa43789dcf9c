"""`expect_calls`: what the mocks of a step were called with, as a test report.

The calls are read before the completion is recorded, outside of its transaction.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apps.executions.domain.call_expectations import KIND, MockCall, case_of
from apps.executions.domain.junit import Case, SuiteOfStep, as_junit, read_summary
from apps.executions.models import Step
from apps.executions.selectors.definitions import (
    RunDefinition,
    definitions_of_runs,
    indexes_of_jobs,
    run_definition,
)
from apps.executions.selectors.mock_spaces import space_of
from apps.executions.services.run_aggregate import RunAggregate
from apps.executions.services.stored_files import new_artifact, store_blob
from apps.mocks import api as mocks
from kernel.agent_protocol import ArtifactUpload, Completion
from kernel.clock import rfc3339

PATH: Final = "expect_calls.xml"
NAME: Final = "expect-calls"
_LOOKS_EVERY_S: Final = 0.2
_SHOWN: Final = 3
_UNSEEN: Final = (
    "the calls of mocks are in the memory of the server; with a runner in another process, they "
    "need Redis (REDIS_ADDR)"
)


@dataclass(frozen=True, slots=True)
class CallReport:
    """The results of a step's expectations."""

    cases: tuple[Case, ...]
    document: bytes  # as JUnit XML

    @property
    def failures(self) -> str:
        """Return the missed expectations in words, "" if there are none."""
        missed = [case.message for case in self.cases if case.outcome != "passed"]
        more = f"; and {len(missed) - _SHOWN} more" if len(missed) > _SHOWN else ""
        return "; ".join(missed[:_SHOWN]) + more


def call_reports(completions: Iterable[Completion]) -> dict[str, CallReport]:
    """Return job id → results, of the completions of steps that expect calls."""
    ended = {
        each.job.job_id: each.job.attempt
        for each in completions
        if each.outcome in ("succeeded", "failed")
    }
    indexes = indexes_of_jobs(ended) if ended else {}
    definitions = definitions_of_runs(pk for pk, _ in indexes.values()) if indexes else {}
    expecting = [
        job_id
        for job_id, (pk, index) in indexes.items()
        if pk in definitions and "expectCalls" in definitions[pk].nodes[index]
    ]
    if not expecting:
        return {}
    steps = Step.objects.filter(job_id__in=expecting).select_related("execution")
    delay_s = mocks.journal_delay_s()
    until = None if delay_s is None else time.monotonic() + delay_s
    return {
        step.job_id: _report(step, until)
        for step in steps
        if step.attempt == ended[step.job_id] and step.started_at is not None
    }


def _report(step: Step, until: float | None) -> CallReport:
    """Return the results; `until`: when all calls have arrived, None where they never do."""
    definition = run_definition(step.execution.snapshot_id)
    expectations = definition.nodes[step.index - 1]["expectCalls"]
    if until is None:
        fault = Case(name="calls of mocks", classname=KIND, outcome="error", message=_UNSEEN)
        cases = [fault]
    else:
        cases = _results(step, definition, expectations, until=until)
    suite = SuiteOfStep(
        name=step.step_id,
        cases=tuple(cases),
        started_at=rfc3339(step.started_at) if step.started_at else "",
    )
    return CallReport(suite.cases, as_junit(f"{step.step_id}: {KIND}", [suite]))


def _results(
    step: Step,
    definition: RunDefinition,
    expectations: Sequence[Mapping[str, Any]],
    *,
    until: float,
) -> list[Case]:
    """Return the results once all expectations are met for good, or all calls have arrived."""
    mock_ids = dict.fromkeys(mock for each in expectations for mock in each["mocks"])
    is_bounded = any("atMost" in each for each in expectations)  # one more call may break it
    while True:
        is_last = time.monotonic() >= until
        calls, gap = _calls(step, definition, mock_ids)
        cases = [case_of(each, calls, gap=gap) for each in expectations]
        if is_last or (not is_bounded and all(case.outcome == "passed" for case in cases)):
            return cases
        time.sleep(_LOOKS_EVERY_S)  # other processes send their calls to Redis in batches


def _calls(
    step: Step, definition: RunDefinition, mock_ids: Iterable[str]
) -> tuple[list[MockCall], str]:
    """Return the calls since the attempt began, the newest first, and why some may be missing."""
    since = step.started_at or step.execution.started_at
    calls: list[MockCall] = []
    gap = ""
    for mock_id in mock_ids:
        surfaces = definition.mocks.get(mock_id, {})
        entries = mocks.read_journal(space_of(definition, step.execution.run_id, mock_id))
        if len(entries) >= mocks.JOURNAL_ENTRIES and entries[-1].time >= since:
            gap = f"only the newest {mocks.JOURNAL_ENTRIES:,} calls of a suite are kept"
        calls += [
            MockCall(mock_id, entry)
            for entry in entries
            if entry.surface_id in surfaces and entry.time >= since
        ]
    calls.sort(key=lambda call: call.entry.time, reverse=True)
    return calls, mocks.journal_gap(since) or gap


def keep_report(run: RunAggregate, index: int, report: CallReport) -> None:
    """Store the results as a test report of the attempt."""
    sha256 = hashlib.sha256(report.document).hexdigest()
    store_blob(sha256, report.document)
    upload = ArtifactUpload(
        path=PATH,
        name=NAME,
        on="always",
        format="junit",
        media_type="application/xml",
        body=report.document,
    )
    artifact = new_artifact(run, index, upload, sha256)
    artifact.test_summary = read_summary("junit", report.document)
    artifact.save(force_insert=True)
