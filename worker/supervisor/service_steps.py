"""Services: started, probed until ready, kept until their run ends.

(reference: control-plane 14.1)
"""

from __future__ import annotations

import asyncio

from worker.domain.control_plane import JobOutcome
from worker.domain.evaluation import Failure, service_ended
from worker.domain.readiness import (
    NO_PROBE_MESSAGE,
    Probe,
    StillRunning,
    choose_probe,
    first_tcp_port,
)
from worker.domain.step_spec import Ready
from worker.supervisor.artifact_export import export_artifacts
from worker.supervisor.attempt import StepAttempt
from worker.supervisor.first_of import first_of
from worker.supervisor.readiness_prober import until_any_seen, until_seen

DETACH = "detach"


async def serve(attempt: StepAttempt) -> JobOutcome:
    """Raises RuntimeFailure, ValueError for a probe without a port."""
    if not attempt.mark.exists():
        probe = await _probe(attempt)
        if problem := await _until_healthy(attempt, probe):
            return await _failed(attempt, problem)
        if not attempt.stop_requested.done():
            await _report_healthy(attempt, probe)
    first = await first_of(
        ended=attempt.context.runtime.wait(attempt.unit), stop=attempt.stop_requested
    )
    if first == "stop":
        return await _stopped(attempt)
    return await _failed(attempt, await _ended(attempt))


async def _probe(attempt: StepAttempt) -> Probe:
    node = attempt.spec.node
    undeclared = node.ready is None and first_tcp_port(node) is None
    checks = undeclared and await attempt.context.runtime.has_health_check(attempt.unit)
    return choose_probe(node, image_has_health_check=checks)


async def _until_healthy(attempt: StepAttempt, probe: Probe) -> Failure | None:
    """None: ready, or told to stop."""
    rules, ready = attempt.spec.evaluation, attempt.spec.node.ready
    limit_ms = ready.start_period_ms + ready.timeout_ms if ready else attempt.spec.timeout_ms
    first = await first_of(
        stop=attempt.stop_requested,
        matched=until_any_seen(attempt.log, *rules.fail_on_logs) if rules.fail_on_logs else None,
        ready=_ready(attempt, probe),
        ended=attempt.context.runtime.wait(attempt.unit),
        timeout_s=limit_ms / 1000,
    )
    if first == "matched":
        found = ", ".join(map(repr, attempt.log_matches().matched))
        return Failure(reason="fail_on_logs_matched", detail=f"a line contains {found}")
    if first == "ended":
        return await _ended(attempt)
    return _not_ready(attempt, limit_ms) if first == "timeout" else None


async def _ready(attempt: StepAttempt, probe: Probe) -> None:
    ready = attempt.spec.node.ready or Ready()
    await asyncio.sleep(ready.start_period_ms / 1000)  # declared: it is not asked before
    await attempt.context.prober.until_ready(
        probe,
        attempt.unit,
        attempt.log,
        headers=attempt.spec.headers,
        interval_s=ready.interval_ms / 1000,
        on_miss=attempt.note_probe,
    )
    await until_seen(attempt.log, *attempt.spec.evaluation.expect_logs)


def _not_ready(attempt: StepAttempt, limit_ms: int) -> Failure:
    if missing := attempt.log_matches().missing:
        texts = ", ".join(map(repr, missing))
        detail = f"no line contains {texts} within {limit_ms / 1000:g} s"
        return Failure(reason="expect_logs_missing", detail=detail)
    detail = f"its readiness probe did not pass within {limit_ms / 1000:g} s"
    if attempt.probe_problem:
        detail = f"{detail}: {attempt.probe_problem}"
    return Failure(reason="not_ready", detail=detail)


async def _ended(attempt: StepAttempt) -> Failure:
    return service_ended(await attempt.context.runtime.wait(attempt.unit))


async def _report_healthy(attempt: StepAttempt, probe: Probe) -> None:
    message = NO_PROBE_MESSAGE if isinstance(probe, StillRunning) else ""
    await attempt.report("healthy", message)
    attempt.mark.touch()


async def _stopped(attempt: StepAttempt) -> JobOutcome:
    if attempt.stop_reason == DETACH:
        return JobOutcome(status="succeeded")
    exit_code = await _stop(attempt)
    await export_artifacts(attempt, succeeded=True)
    return JobOutcome(status="canceled", reason="canceled", exit_code=exit_code)


async def _failed(attempt: StepAttempt, problem: Failure) -> JobOutcome:
    exit_code = await _stop(attempt)
    await export_artifacts(attempt, succeeded=False)
    return JobOutcome(
        status="failed", reason=problem.reason, error=problem.detail, exit_code=exit_code
    )


async def _stop(attempt: StepAttempt) -> int:
    await attempt.context.runtime.stop(attempt.unit)
    ended = await attempt.context.runtime.wait(attempt.unit)
    await attempt.output_end()
    return ended.exit_code
