"""The verdict on a run: one sentence, the steps that failed and why, and the next command.

Every page, command, response and report takes its words from here.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypedDict

from apps.executions.domain.events import CauseLink
from apps.executions.domain.phrases import (
    Phrase,
    cause_sentences,
    clip,
    failure_phrase,
    run_phrase,
)
from apps.executions.domain.states import ExecutionStatus, RunReason, StepStatus

MAX_STEPS: Final = 5  # of the failed ones
MAX_CASES: Final = 5  # of one step
MAX_LINES: Final = 8  # of one step
MAX_CHARACTERS: Final = 400  # of a line, a cause or the message of a case
PROGRAM: Final = "partita"


class VerdictLine(TypedDict):
    """A line of the log by its number, without escape sequences."""

    number: int
    text: str


class VerdictCase(TypedDict):
    """A test case that failed."""

    name: str
    classname: str
    message: str


class StepVerdict(TypedDict):
    """A step that failed: `causes` has what caused it, nearest first, `lines` its last lines.

    `wroteNothing` is true for a step that ran and left no line of output. `moreCases` counts the
    failed test cases that `cases` leaves out.
    """

    stepId: str
    sentence: str
    mayFail: bool
    causes: list[str]
    cases: list[VerdictCase]
    moreCases: int
    lines: list[VerdictLine]
    wroteNothing: bool


class CanceledBy(TypedDict, total=False):
    """Who canceled the run and when; absent where that is not known."""

    by: str
    at: str


class Cancellation(CanceledBy):
    """Who canceled the run, when and why; `reason` is "" without any."""

    reason: str


class FurtherVerdict(TypedDict, total=False):
    """What only some verdicts have; `next` is the command that shows more."""

    canceled: Cancellation
    next: str


class RunVerdict(FurtherVerdict):
    """Why a run is as it is, in words.

    `steps` has the failed steps, those that fail the run first; `moreSteps` counts the failed
    steps that it leaves out.
    """

    sentence: str
    steps: list[StepVerdict]
    moreSteps: int
    healthySteps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedStep:
    """A step that failed; `has_run`: its container or process started."""

    step_id: str
    reason: str
    detail: str = ""
    exit_code: int | None = None
    cause: Sequence[CauseLink] = ()
    may_fail: bool = False
    has_run: bool = True

    @property
    def sentence(self) -> str:
        return clip(self._phrase.about(self.step_id))

    @property
    def causes(self) -> list[str]:
        """Return the words of a registry or an engine, then the chain of steps before it."""
        words = [self._phrase.words] if self._phrase.words else []
        return [clip(each, MAX_CHARACTERS) for each in [*words, *cause_sentences(self.cause)]]

    @property
    def _phrase(self) -> Phrase:
        return failure_phrase(self.reason, self.detail, self.exit_code)


@dataclass(frozen=True, slots=True)
class QueueTurn:
    """Where a queued run stands, and what it waits for in words."""

    position: int
    waits_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """A run as a verdict needs it.

    `counts` has the number of steps by status. `failed` has failed steps, those that fail the run
    first, then in the order in which they ended; it may have only the first ones.
    """

    run_id: str
    status: str
    failing: bool = False
    reason: str = ""
    detail: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    turn: QueueTurn | None = None
    canceled: Cancellation | None = None
    failed: Sequence[FailedStep] = ()

    @property
    def failed_as_a_whole(self) -> bool:
        return self.reason not in ("", RunReason.STEP_FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEvidence:
    """What a failed step left: its last lines and its failed test cases, of `total_cases`.

    `is_output_known` is false if output of the run was dropped or is not kept.
    """

    lines: Sequence[VerdictLine] = ()
    cases: Sequence[VerdictCase] = ()
    total_cases: int = 0
    is_output_known: bool = True


def verdict_of(run: RunOutcome, evidence: Mapping[str, StepEvidence]) -> RunVerdict:
    """Return the verdict; `evidence` is by step id."""
    shown = run.failed[:MAX_STEPS]
    verdict: RunVerdict = {
        "sentence": run_sentence(run),
        "steps": [_step_verdict(step, evidence.get(step.step_id)) for step in shown],
        "moreSteps": max(run.counts.get(StepStatus.FAILED, 0), len(run.failed)) - len(shown),
        "healthySteps": run.counts.get(StepStatus.HEALTHY, 0),
    }
    if run.canceled is not None:
        verdict["canceled"] = run.canceled
    if command := next_command(run):
        verdict["next"] = command
    return verdict


def run_sentence(run: RunOutcome) -> str:
    """Return why the run is as it is, in one sentence without a period."""
    if run.status in (ExecutionStatus.CANCELED, ExecutionStatus.CANCELING):
        return cancel_sentence(run.canceled)
    if run.status != ExecutionStatus.HEALTHY and (run.failing or run.reason):
        return _failure_sentence(run)
    return status_sentence(run.status, run.counts, run.turn)


def _failure_sentence(run: RunOutcome) -> str:
    if run.failed_as_a_whole or not run.failed:
        return run_phrase(run.reason or RunReason.STEP_FAILED, run.detail)
    first, total = run.failed[0], max(run.counts.get(StepStatus.FAILED, 0), len(run.failed))
    more = total - 1
    if not more:
        return first.sentence
    return clip(f"{first.sentence}; {more} more step{'' if more == 1 else 's'} failed")


def cancel_sentence(canceled: Cancellation | None) -> str:
    """Return `Canceled by Ada (ada@example.org) at 2026-01-02 03:04:05Z: wrong branch`."""
    if canceled is None:
        return "Canceled"
    by, at = canceled.get("by", ""), canceled.get("at", "")
    text = "Canceled"
    if by:
        text += f" by {by}"
    if at:
        text += f" at {at[:10]} {at[11:19]}Z"
    return clip(f"{text}: {canceled['reason']}" if canceled["reason"] else text)


def status_sentence(status: str, counts: Mapping[str, int], turn: QueueTurn | None) -> str:
    """Return the sentence about a run that has not failed and was not canceled."""
    if status == ExecutionStatus.QUEUED:
        if turn is None:
            return "Waiting for its turn"
        why = f"; {turn.waits_for}" if turn.waits_for else ""
        return clip(f"Waiting for its turn: number {turn.position} in the queue{why}")
    healthy, total = counts.get(StepStatus.HEALTHY, 0), sum(counts.values())
    if status != ExecutionStatus.HEALTHY:
        running = counts.get(StepStatus.RUNNING, 0)
        return f"{healthy} of {total} steps healthy, {running} running"
    parts = [healthy_steps(healthy)]
    if skipped := counts.get(StepStatus.SKIPPED, 0):
        parts.append(f"{skipped} skipped")
    if failed := counts.get(StepStatus.FAILED, 0):
        parts.append(f"{failed} failed and {'was' if failed == 1 else 'were'} allowed to")
    return ", ".join(parts)


def healthy_steps(count: int) -> str:
    """Return `36 steps healthy`, the line that stands for all of them."""
    return f"{count} step{'' if count == 1 else 's'} healthy"


def next_command(run: RunOutcome) -> str:
    """Return the command that shows more of a failure, or "" for a run without any."""
    is_canceled = run.status in (ExecutionStatus.CANCELED, ExecutionStatus.CANCELING)
    if is_canceled or not (run.failed or run.failing or run.reason):
        return ""
    command = f"{PROGRAM} run logs {run.run_id}"
    if not run.failed:
        return command
    if len(run.failed) > 1:
        return f"{command} --failed"
    return f"{command} --source {shlex.quote(run.failed[0].step_id)}"


def _step_verdict(step: FailedStep, evidence: StepEvidence | None) -> StepVerdict:
    left = evidence or StepEvidence(is_output_known=False)
    cases = list(left.cases[:MAX_CASES])
    return {
        "stepId": step.step_id,
        "sentence": step.sentence,
        "mayFail": step.may_fail,
        "causes": step.causes,
        "cases": cases,
        "moreCases": max(0, left.total_cases - len(cases)),
        "lines": list(left.lines[-MAX_LINES:]),
        "wroteNothing": step.has_run and left.is_output_known and not left.lines,
    }
