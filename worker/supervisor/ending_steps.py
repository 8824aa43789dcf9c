"""Tasks and tests: run to their end, then judged (reference: control-plane 11.5, 14.1)."""

from __future__ import annotations

from worker.domain.control_plane import Outcome
from worker.domain.evaluation import Verdict, judge
from worker.supervisor.attempt import Attempt
from worker.supervisor.exporting import export_artifacts
from worker.supervisor.racing import first_of


async def run_to_end(attempt: Attempt) -> Outcome:
    """Raises RuntimeFailure."""
    runtime, unit, limit_ms = attempt.tools.runtime, attempt.unit, attempt.spec.timeout_ms
    first = await first_of(
        ended=runtime.wait(unit),
        stop=attempt.told_to_stop,
        timeout_s=max(0.0, limit_ms / 1000 - attempt.age_s),
    )
    if first != "ended":
        await runtime.stop(unit)
    ended = await runtime.wait(unit)
    await attempt.output_end()
    if first == "stop":
        return Outcome(status="canceled", reason="canceled", exit_code=ended.exit_code)
    timed_out_ms = limit_ms if first == "timeout" else None
    logs = attempt.log_findings()
    verdict = judge(attempt.spec.evaluation, ended, logs, timed_out_ms=timed_out_ms)
    missing = await export_artifacts(attempt, succeeded=verdict.succeeded)
    return _outcome(verdict.and_also(missing), ended.exit_code)


def _outcome(verdict: Verdict, exit_code: int) -> Outcome:
    if verdict.succeeded:
        return Outcome(status="succeeded", exit_code=exit_code)
    return Outcome(
        status="failed", reason=verdict.reason, error=verdict.detail, exit_code=exit_code
    )
