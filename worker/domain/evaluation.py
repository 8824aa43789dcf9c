"""The verdict on an attempt (reference: control-plane 11.5): its first failure is the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kernel.durations import format_duration
from worker.domain.step_spec import StepEvaluation

KILLED: Final = 137  # the exit code of a program that SIGKILL ended


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitExit:
    """The exit of a unit."""

    exit_code: int
    oom_killed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptVerdict:
    """Without failures, the attempt ended as expected."""

    failures: tuple[Failure, ...] = ()

    @property
    def succeeded(self) -> bool:
        return not self.failures

    @property
    def reason(self) -> str:
        return self.failures[0].reason if self.failures else ""

    @property
    def detail(self) -> str:
        return "; ".join(finding.detail for finding in self.failures)

    def with_failures(self, more: Sequence[Failure]) -> AttemptVerdict:
        return AttemptVerdict(failures=self.failures + tuple(more))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMatches:
    """Which of the watched texts occurred in the attempt's output lines."""

    missing: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()


def judge(
    rules: StepEvaluation, ended: UnitExit, logs: LogMatches, *, timed_out_ms: int | None = None
) -> AttemptVerdict:
    """Return the verdict on a task or test without its artifacts.

    `timed_out_ms`: the limit, if the unit was stopped because of it.
    """
    failures = list(_endings(rules, ended, timed_out_ms))
    failures += [
        Failure(reason="fail_on_logs_matched", detail=f"a line contains {text!r}")
        for text in logs.matched
    ]
    failures += [
        Failure(reason="expect_logs_missing", detail=f"no line contains {text!r}")
        for text in logs.missing
    ]
    return AttemptVerdict(failures=tuple(failures))


def _endings(rules: StepEvaluation, ended: UnitExit, timed_out_ms: int | None) -> Iterator[Failure]:
    if ended.oom_killed:
        yield Failure(reason="oom_killed", detail="killed: out of its memory limit")
    if timed_out_ms is not None:
        yield Failure(
            reason="timeout", detail=f"still running after {format_duration(timed_out_ms / 1000)}"
        )
    elif ended.exit_code != rules.expect_exit:
        reason = "exit_nonzero" if rules.expect_exit == 0 else "exit_unexpected"
        wanted = "" if rules.expect_exit == 0 else f", expected {rules.expect_exit}"
        yield Failure(reason=reason, detail=f"exit code {ended.exit_code}{wanted}")


def service_failure(ended: UnitExit) -> Failure:
    if ended.oom_killed:
        return Failure(reason="oom_killed", detail="killed: out of its memory limit")
    return Failure(reason="service_exited", detail=f"ended with exit code {ended.exit_code}")
