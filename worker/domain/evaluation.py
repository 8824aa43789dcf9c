"""The verdict on an attempt (reference: control-plane 11.5): the first finding is the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernel.durations import shown
from worker.domain.step_spec import Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a unit ended."""

    exit_code: int
    oom_killed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """No findings: the attempt ended as expected."""

    findings: tuple[Finding, ...] = ()

    @property
    def succeeded(self) -> bool:
        return not self.findings

    @property
    def reason(self) -> str:
        return self.findings[0].reason if self.findings else ""

    @property
    def detail(self) -> str:
        return "; ".join(finding.detail for finding in self.findings)

    def and_also(self, more: Sequence[Finding]) -> Verdict:
        return Verdict(findings=self.findings + tuple(more))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFindings:
    """Which of the watched texts occurred in the attempt's output lines."""

    missing: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()


def judge(
    rules: Evaluation, ended: Ended, logs: LogFindings, *, timed_out_ms: int | None = None
) -> Verdict:
    """A task or test, artifacts apart. `timed_out_ms`: the limit, when it was stopped for it."""
    findings = list(_endings(rules, ended, timed_out_ms))
    findings += [
        Finding(reason="fail_on_logs_matched", detail=f"a line contains {text!r}")
        for text in logs.matched
    ]
    findings += [
        Finding(reason="expect_logs_missing", detail=f"no line contains {text!r}")
        for text in logs.missing
    ]
    return Verdict(findings=tuple(findings))


def _endings(rules: Evaluation, ended: Ended, timed_out_ms: int | None) -> Iterator[Finding]:
    if ended.oom_killed:
        yield Finding(reason="oom_killed", detail="killed: out of its memory limit")
    if timed_out_ms is not None:
        yield Finding(reason="timeout", detail=f"still running after {shown(timed_out_ms / 1000)}")
    elif ended.exit_code != rules.expect_exit:
        reason = "exit_nonzero" if rules.expect_exit == 0 else "exit_unexpected"
        wanted = "" if rules.expect_exit == 0 else f", expected {rules.expect_exit}"
        yield Finding(reason=reason, detail=f"exit code {ended.exit_code}{wanted}")


def service_ended(ended: Ended) -> Finding:
    if ended.oom_killed:
        return Finding(reason="oom_killed", detail="killed: out of its memory limit")
    return Finding(reason="service_exited", detail=f"ended with exit code {ended.exit_code}")
