"""`expect_calls`: what the mocks of a step were called with, as a test report.

The calls are read before the completion is recorded, outside of its transaction.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from apps.executions.domain.call_expectations import KIND, MockCall, case_of
from apps.executions.domain.junit import Case, SuiteOfStep, as_junit, read_summary
from apps.executions.models import Step, StepRepeat
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectingAttempt:
    """An attempt of a step that expects calls of mocks, and when it began."""

    run_id: str
    definition: RunDefinition
    index: int
    started_at: datetime

    @property
    def step_id(self) -> str:
        return str(self.definition.nodes[self.index]["id"])


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
    until = calls_arrive_by()
    return {
        step.job_id: call_report(_attempt_of(step, step.started_at), until)
        for step in steps
        if step.attempt == ended[step.job_id] and step.started_at is not None
    }


def _attempt_of(step: Step, started_at: datetime) -> ExpectingAttempt:
    return ExpectingAttempt(
        run_id=step.execution.run_id,
        definition=run_definition(step.execution.snapshot_id),
        index=step.index - 1,
        started_at=started_at,
    )


def calls_arrive_by() -> float | None:
    """Return the monotonic time by which all calls so far have arrived; None: they never do."""
    delay_s = mocks.journal_delay_s()
    return None if delay_s is None else time.monotonic() + delay_s


def call_report(attempt: ExpectingAttempt, until: float | None) -> CallReport:
    """Return the results of an attempt; `until` is that of `calls_arrive_by`."""
    expectations = attempt.definition.nodes[attempt.index]["expectCalls"]
    if until is None:
        fault = Case(name="calls of mocks", classname=KIND, outcome="error", message=_UNSEEN)
        cases = [fault]
    else:
        cases = _results(attempt, expectations, until=until)
    suite = SuiteOfStep(
        name=attempt.step_id,
        cases=tuple(cases),
        started_at=rfc3339(attempt.started_at),
    )
    return CallReport(suite.cases, as_junit(f"{attempt.step_id}: {KIND}", [suite]))


def _results(
    attempt: ExpectingAttempt, expectations: Sequence[Mapping[str, Any]], *, until: float
) -> list[Case]:
    """Return the results once all expectations are met for good, or all calls have arrived."""
    mock_ids = dict.fromkeys(mock for each in expectations for mock in each["mocks"])
    is_bounded = any(
        {"atMost", "valid"} & each.keys() for each in expectations
    )  # one more call may break it
    while True:
        is_last = time.monotonic() >= until
        calls, gap = _calls(attempt, mock_ids)
        cases = [case_of(each, calls, gap=gap) for each in expectations]
        if is_last or (not is_bounded and all(case.outcome == "passed" for case in cases)):
            return cases
        time.sleep(_LOOKS_EVERY_S)  # other processes send their calls to Redis in batches


def _calls(attempt: ExpectingAttempt, mock_ids: Iterable[str]) -> tuple[list[MockCall], str]:
    """Return the calls since the attempt began, the newest first, and why some may be missing."""
    since, definition = attempt.started_at, attempt.definition
    calls: list[MockCall] = []
    gap = ""
    for mock_id in mock_ids:
        surfaces = definition.mocks.get(mock_id, {})
        entries = mocks.read_journal(space_of(definition, attempt.run_id, mock_id))
        if len(entries) >= mocks.JOURNAL_ENTRIES and entries[-1].time >= since:
            gap = f"only the newest {mocks.JOURNAL_ENTRIES:,} calls of a suite are kept"
        calls += [
            MockCall(mock_id, entry)
            for entry in entries
            if entry.surface_id in surfaces and entry.time >= since
        ]
    calls.sort(key=lambda call: call.entry.time, reverse=True)
    return calls, mocks.journal_gap(since) or gap


def keep_report(
    run: RunAggregate, index: int, report: CallReport, *, repeat: StepRepeat | None = None
) -> None:
    """Store the results as a test report of the attempt, or of a repeat of the step.

    Its bytes go into the store, wherever others go: a completion waits for no other storage.
    """
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
    artifact = new_artifact(run, index, upload, sha256, repeat=repeat)
    artifact.test_summary = read_summary("junit", report.document)
    artifact.save(force_insert=True)
