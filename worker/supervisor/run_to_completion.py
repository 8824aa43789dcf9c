"""Tasks and tests: run to their end, then judged (reference: control-plane 11.5, 14.1)."""

from __future__ import annotations

from worker.domain.control_plane import JobOutcome
from worker.domain.evaluation import AttemptVerdict, judge
from worker.supervisor.artifact_export import export_artifacts
from worker.supervisor.attempt import StepAttempt
from worker.supervisor.first_of import first_of


async def run_to_completion(attempt: StepAttempt) -> JobOutcome:
    """Raises RuntimeFailure."""
    runtime, unit, limit_ms = attempt.context.runtime, attempt.unit, attempt.spec.timeout_ms
    first = await first_of(
        ended=runtime.wait(unit),
        stop=attempt.stop_requested,
        timeout_s=max(0.0, limit_ms / 1000 - attempt.age_s),
    )
    if first != "ended":
        await runtime.stop(unit)
    ended = await runtime.wait(unit)
    await attempt.output_end()
    if first == "stop":
        return JobOutcome(status="canceled", reason="canceled", exit_code=ended.exit_code)
    timed_out_ms = limit_ms if first == "timeout" else None
    logs = attempt.log_matches()
    verdict = judge(attempt.spec.evaluation, ended, logs, timed_out_ms=timed_out_ms)
    missing = await export_artifacts(attempt, succeeded=verdict.succeeded)
    return _outcome(verdict.with_failures(missing), ended.exit_code)


def _outcome(verdict: AttemptVerdict, exit_code: int) -> JobOutcome:
    if verdict.succeeded:
        return JobOutcome(status="succeeded", exit_code=exit_code)
    return JobOutcome(
        status="failed", reason=verdict.reason, error=verdict.detail, exit_code=exit_code
    )
