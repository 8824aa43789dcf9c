"""The progression of a run: all changes that follow from its state, as one value.

Pure. The services carry out the commands of a `RunDecision` in their order (reference:
control-plane 11.3, 11.5, 15.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from apps.executions.domain.commands import (
    CancelStep,
    ChangeRun,
    Command,
    EndJob,
    KeepEnvironment,
    ResetStep,
    SkipStep,
    StartStep,
    StopJob,
)
from apps.executions.domain.events import CauseLink
from apps.executions.domain.kept_environments import KeepWish
from apps.executions.domain.plan import Replacement, RunPlan, Skip, decide, replacement
from apps.executions.domain.states import (
    TERMINAL_STEP,
    CancelReason,
    ExecutionEvent,
    ExecutionStatus,
    JobState,
    RunReason,
    StatusCode,
    StepReason,
    StepStatus,
    advance_execution,
)
from apps.executions.domain.transitions import EventText, StepChange, Values
from kernel.clock import rfc3339

TEARDOWN_WITHIN: Final = timedelta(seconds=60)
STOPPED_WITHIN: Final = timedelta(seconds=30)
_END_LEVELS: Final = {ExecutionStatus.HEALTHY: "info", ExecutionStatus.CANCELED: "warn"}
_WAITING: Final = (StepStatus.PENDING, StepStatus.QUEUED)


class CancelWords(NamedTuple):
    """Who canceled a run and why, as they said."""

    by: str = ""
    reason: str = ""

    def text(self, what: str, when: str = "") -> str:
        by = f" by {self.by}" if self.by else ""
        why = f": {self.reason}" if self.reason else ""
        return f"{what}{by}{when}{why}"


def is_planning(status: str, verdict: str) -> bool:
    """Whether steps may still start: the run is booted, not canceled, and has no verdict."""
    return status == ExecutionStatus.BOOTING and not verdict


def open_jobs(jobs: Sequence[JobState]) -> tuple[int, ...]:
    """Return the steps whose jobs a supervisor has."""
    return tuple(index for index, job in enumerate(jobs) if job is JobState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """A run before a decision; an index is that of a step in the plan.

    `replaced` are services that start again, and why, and `replaced_cause` is the first cause among
    them; `failures` are those of their dependents that were reported with it, and come only if
    these are not reset. `empty_mocks` serve nothing.
    """

    plan: RunPlan
    statuses: Sequence[StepStatus]
    jobs: Sequence[JobState]
    codes: Sequence[str]
    status: ExecutionStatus
    verdict: str
    reason: str
    failing: bool
    is_over: bool
    keep: KeepWish
    is_kept: bool
    now: datetime
    cancel_words: CancelWords
    replaced: Mapping[int, str] = field(default_factory=dict)
    replaced_cause: Sequence[CauseLink] = ()
    failures: Mapping[int, StepChange] = field(default_factory=dict)
    empty_mocks: Set[int] = frozenset()

    def steps_with(self, code: str) -> set[int]:
        return {index for index, each in enumerate(self.codes) if each == code}

    @property
    def is_planning(self) -> bool:
        return is_planning(self.status, self.verdict)

    @property
    def open_jobs(self) -> tuple[int, ...]:
        return open_jobs(self.jobs)

    @property
    def waiting(self) -> tuple[int, ...]:
        return tuple(index for index, status in enumerate(self.statuses) if status in _WAITING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDecision:
    """What happens to a run: `commands`, which are carried out in their order.

    `reads` are the steps whose rows they need. `goes_on`: more follows, which is `then`, or else is
    decided from the state after this.
    """

    commands: Sequence[Command] = ()
    reads: tuple[int, ...] = ()
    then: RunDecision | None = None
    goes_on: bool = False


def decide_progress(state: RunState, *, max_parallel: int) -> RunDecision:
    """Return what follows from the statuses of the steps: resets, starts, the verdict, the end."""
    if not state.is_planning:
        return _decide_end(state)
    if state.replaced:
        return _decide_replacement(state)
    steps = decide(
        state.plan,
        state.statuses,
        max_parallel=max_parallel,
        again=state.steps_with(StatusCode.QUEUED_AGAIN),
        not_selected=state.steps_with(StatusCode.NOT_SELECTED),
    )
    causes = {skip.because for skip in steps.skip.values() if skip.because is not None}
    commands: list[Command] = []
    if steps.failing and not state.failing:
        commands.append(ChangeRun({"failing": True}, stores_sentence=True))
    text = "canceled with what it depends on"
    commands += (CancelStep(index, text) for index in steps.cancel)
    commands += (SkipStep(index, why) for index, why in steps.skip.items())
    commands += (StartStep(index) for index in steps.start)
    decision = RunDecision(
        commands=commands,
        reads=(*causes, *(at for at in steps.start if state.codes[at] == StatusCode.PENDING_AGAIN)),
        goes_on=any(_ends_at_once(state, index) for index in steps.start),
    )
    if steps.verdict is None:
        return decision
    return _with_verdict(state, decision, is_healthy=steps.verdict)


def decide_admission(state: RunState, *, max_duration: timedelta) -> RunDecision:
    """Admit a queued run: start its time and queue its root steps."""
    status = advance_execution(state.status, ExecutionEvent.ADMITTED)
    times: Values = {"booted_at": state.now, "deadline": state.now + max_duration}
    count = len(state.statuses)
    event = EventText("booting", f"admitted, {count} step{'' if count == 1 else 's'}")
    return RunDecision(commands=[ChangeRun({"status": status, **times}, event)], goes_on=True)


def decide_cancellation(state: RunState, words: CancelWords) -> RunDecision:
    """Cancel a run that is `Queued` (at once) or `Booting`; else raise IllegalTransition."""
    asked = ExecutionEvent.CANCEL_REQUESTED
    status = advance_execution(state.status, asked)
    at_once = status is ExecutionStatus.CANCELED
    values: Values = {
        "status": status,
        "keep_alive_until": None,
        "cancel_reason": words.reason,
        "canceled_by": words.by,
        "canceled_at": state.now,
        **dict.fromkeys(("verdict", "reason", "reason_detail"), ""),
        "deadline": state.now + STOPPED_WITHIN,
    }
    event = None if at_once else EventText("canceling", words.text("cancel requested"), "warn")
    return RunDecision(
        commands=[
            ChangeRun(values, event, stores_sentence=True),
            *(CancelStep(index) for index in state.waiting),
            *(StopJob(index, CancelReason.CANCELED) for index in state.open_jobs),
        ],
        reads=state.open_jobs,
        then=_end(state, asked, words.text("canceled", " before it started")) if at_once else None,
        goes_on=True,
    )


def decide_failure(state: RunState, reason: RunReason, detail: str = "") -> RunDecision:
    """Fail the run as a whole. It has the reason at once and ends when its jobs have stopped.

    The detail of `step_failed` is the step that failed.
    """
    is_late = reason is RunReason.RUN_TIMEOUT
    why_stopped = CancelReason.TIMEOUT if is_late else CancelReason.CANCELED
    values: Values = {
        "failing": True,
        "reason": reason,
        "reason_detail": detail,
        "verdict": ExecutionStatus.FAILED,
        "deadline": state.now + STOPPED_WITHIN,
    }
    return RunDecision(
        commands=[
            ChangeRun(values, stores_sentence=True),
            *(SkipStep(index, Skip(StepReason.RUN_FAILED)) for index in state.waiting),
            *_keeping(state, ExecutionStatus.FAILED, reason),
            *(StopJob(index, why_stopped) for index in state.open_jobs),
        ],
        reads=state.open_jobs,
        goes_on=True,
    )


def decide_forced_end(state: RunState) -> RunDecision:
    """End what is still open after the time for stopping; later reports of it are stale."""
    jobs = state.open_jobs
    return RunDecision(commands=[EndJob(index) for index in jobs], reads=jobs, goes_on=True)


def _ends_at_once(state: RunState, index: int) -> bool:
    return state.plan.nodes[index].kind == "log" or index in state.empty_mocks


def _decide_replacement(state: RunState) -> RunDecision:
    """Reset what ran against replaced services; fail the run if a part of it must not run twice."""
    services = tuple(state.replaced)
    not_selected = state.steps_with(StatusCode.NOT_SELECTED)
    found = replacement(state.plan, state.statuses, services, not_selected=not_selected)
    if not found.stuck:
        names = _names(state.plan, services)
        text = f"{names} restarted: this step ran against the previous instance"
        resets = [ResetStep(index, text, state.replaced_cause) for index in found.reset]
        return RunDecision(commands=resets, reads=(*services, *found.reset), goes_on=True)
    after = _with_failures(state)
    if state.failing:
        failed = decide_failure(after, RunReason.STEP_FAILED)
    else:
        failed = decide_failure(after, RunReason.DEPENDENCY_REPLACED, _stuck_text(state, found))
    return RunDecision(commands=[*state.failures.values()], then=failed, goes_on=True)


def _with_failures(state: RunState) -> RunState:
    statuses, jobs = list(state.statuses), list(state.jobs)
    for index, change in state.failures.items():
        again = change.attempt_end is not None  # a retry
        statuses[index] = StepStatus.QUEUED if again else StepStatus.FAILED
        jobs[index] = JobState.PENDING if again else JobState.FAILED
    return replace(state, statuses=statuses, jobs=jobs)


def _stuck_text(state: RunState, found: Replacement) -> str:
    """Name the replaced services, the time and the reason, and the steps that cannot run again."""
    reasons = "; ".join(dict.fromkeys(state.replaced.values()))
    return (
        f"{_names(state.plan, state.replaced)} was replaced at {rfc3339(state.now)} ({reasons}) "
        f"after {_names(state.plan, found.started)} had run against it, and "
        f"{_names(state.plan, found.stuck)} is not idempotent"
    )


def _names(plan: RunPlan, indexes: Iterable[int]) -> str:
    return ", ".join(plan.nodes[index].id for index in indexes)


def _with_verdict(state: RunState, decision: RunDecision, *, is_healthy: bool) -> RunDecision:
    verdict = ExecutionStatus.HEALTHY if is_healthy else ExecutionStatus.FAILED
    values: Values = {"verdict": verdict}
    reason = state.reason
    if not is_healthy:
        reason = values["reason"] = RunReason.STEP_FAILED
    stop = state.open_jobs
    if stop:
        values["deadline"] = state.now + TEARDOWN_WITHIN
    return replace(
        decision,
        commands=[
            *decision.commands,
            ChangeRun(values),
            *_keeping(state, verdict, reason),
            *(StopJob(index, CancelReason.TEARDOWN) for index in stop),
        ],
        reads=(*decision.reads, *stop),
        goes_on=not stop,
    )


def _keeping(state: RunState, verdict: ExecutionStatus, reason: str) -> Iterable[Command]:
    if state.keep.applies_to(verdict, reason):
        yield KeepEnvironment(state.now + state.keep.time)


def _decide_end(state: RunState) -> RunDecision:
    """End a run that has a verdict or is canceled, once every step and job has ended."""
    is_canceling = state.status is ExecutionStatus.CANCELING
    if state.is_over or not (state.verdict or is_canceling):
        return RunDecision()
    if state.open_jobs or not all(status in TERMINAL_STEP for status in state.statuses):
        return RunDecision()
    if is_canceling:
        return _end(state, ExecutionEvent.DRAINED, state.cancel_words.text("canceled"))
    if state.verdict == ExecutionStatus.HEALTHY:
        return _end(state, ExecutionEvent.STEPS_HEALTHY, _status_counts(state.statuses))
    by_steps = state.reason == RunReason.STEP_FAILED
    event = ExecutionEvent.STEPS_FAILED if by_steps else ExecutionEvent.RUN_FAILED
    return _end(state, event, reason=state.reason)


def _end(
    state: RunState, event: ExecutionEvent, text: str = "", *, reason: str = ""
) -> RunDecision:
    """End the run; its environment is kept from now on, or its supervisor is released."""
    status = advance_execution(state.status, event)
    values: Values = {"status": status, "finished_at": state.now, "deadline": None}
    if reason:
        values["reason"] = reason  # its detail: a step that ended before may be reported after it
    kept = ChangeRun({"bound_agent_id": ""})
    if state.is_kept:
        until = state.now + state.keep.time
        kept_text = f"the environment is kept for {state.keep.time_text}, until {rfc3339(until)}"
        kept = ChangeRun({"keep_alive_until": until}, EventText("kept", kept_text))
    end = EventText(status.lower(), text, _END_LEVELS.get(status, "error"), str(reason))
    has_sentence = status is not ExecutionStatus.HEALTHY
    last = ChangeRun({}, end, stores_sentence=has_sentence, ends=True)
    return RunDecision(commands=[ChangeRun(values), kept, last])


def _status_counts(statuses: Sequence[StepStatus]) -> str:
    counts = {status: statuses.count(status) for status in StepStatus}
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)
