"""From a started unit to the outcome of its step (reference: control-plane 11.5, 14.1).

Tasks and tests run to completion and are evaluated. Services are probed until they are ready and
run until they are told to stop. Both export artifacts at their end.
"""

from __future__ import annotations

import asyncio
import mimetypes

from worker.domain.control_plane import JobOutcome, RequestRefused, Upload
from worker.domain.evaluation import AttemptVerdict, Failure, judge, service_ended
from worker.domain.readiness import (
    NO_PROBE_MESSAGE,
    Probe,
    StillRunning,
    choose_probe,
    first_tcp_port,
)
from worker.domain.runtime import Collected, CollectedFile, PathRefused
from worker.domain.step_spec import Export, Ready
from worker.supervisor.attempt import StepAttempt
from worker.supervisor.first_of import first_of
from worker.supervisor.readiness_prober import until_any_seen, until_seen
from worker.supervisor.retry import retry_until_answered

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


async def export_artifacts(attempt: StepAttempt, *, succeeded: bool) -> list[Failure]:
    """A finding for each required export that nothing was found for."""
    missing = []
    for export in attempt.spec.exports:
        if export.wanted(succeeded=succeeded) and not await _export(attempt, export):
            if export.required:
                detail = f"artifact {export.path} is missing"
                missing.append(Failure(reason="artifact_missing", detail=detail))
            else:
                await attempt.log.append_system_line(
                    f"no file for the artifact {export.path}", level="warn"
                )
    return missing


async def _export(attempt: StepAttempt, export: Export) -> int:
    """How many files were stored."""
    try:
        collected = await attempt.context.runtime.collect(attempt.unit, export.path)
    except PathRefused as error:
        collected = Collected(skipped=(str(error),))
    for sentence in collected.skipped:
        await attempt.log.append_system_line(sentence, level="warn")
    return sum([await _store(attempt, export, file) for file in collected.files])


async def _store(attempt: StepAttempt, export: Export, file: CollectedFile) -> bool:
    upload = Upload(
        path=file.path,
        name=export.name,
        format=export.format,
        on=export.on,
        media_type=mimetypes.guess_type(file.path)[0] or "application/octet-stream",
        body=file.body,
    )
    try:
        await retry_until_answered(lambda: attempt.context.control_plane.store(attempt.job, upload))
    except RequestRefused as error:
        await attempt.log.append_system_line(
            f"artifact {file.path} was refused: {error}", level="warn"
        )
        return False
    return True
