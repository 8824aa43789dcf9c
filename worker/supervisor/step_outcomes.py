"""From a started unit to the outcome of its step (reference: control-plane 11.5, 14.1).

Tasks and tests run to completion and are evaluated. Services are probed until they are ready and
run until they are told to stop. Both export artifacts at their end.
"""

from __future__ import annotations

import asyncio
import mimetypes
from dataclasses import dataclass, field

from kernel.agent_protocol import (
    ARTIFACT_PATH_CHARACTERS,
    HINT_CHARACTERS,
    MISSING_ARTIFACTS,
    ArtifactUpload,
    Completion,
    MissingArtifact,
)
from worker.domain.control_plane import RequestRefused
from worker.domain.evaluation import Failure, judge, service_failure
from worker.domain.readiness import (
    NO_PROBE_MESSAGE,
    LogProbe,
    Probe,
    StillRunning,
    choose_probe,
    first_tcp_port,
)
from worker.domain.runtime import CollectedFile, PathRefused
from worker.domain.step_spec import Export, Ready
from worker.supervisor.attempt import StepAttempt
from worker.supervisor.readiness_prober import until_all_seen, until_any_seen
from worker.supervisor.waits import cancel_all, first_of, retry_until_answered

DETACH = "detach"


async def run_to_completion(attempt: StepAttempt) -> Completion:
    """Run a task or test to its end and evaluate it. Raises RuntimeFailure."""
    runtime, unit, limit_ms = attempt.context.runtime, attempt.running_unit, attempt.spec.timeout_ms
    waiting = asyncio.create_task(runtime.wait(unit), name=f"wait for {unit.name}")
    try:
        first = await first_of(
            ended=waiting,
            stop=attempt.stop_requested,
            timeout_s=max(0.0, limit_ms / 1000 - attempt.age_s),
        )
        if first != "ended":
            await runtime.stop(unit)
        ended = await waiting
    finally:
        await cancel_all([waiting])
    await attempt.until_output_ends()
    if first == "stop":
        return Completion(
            job=attempt.job, status="canceled", reason="canceled", exit_code=ended.exit_code
        )
    timed_out_ms = limit_ms if first == "timeout" else None
    logs = attempt.log_matches()
    verdict = judge(attempt.spec.evaluation, ended, logs, timed_out_ms=timed_out_ms)
    missing = await _export_artifacts(attempt, succeeded=verdict.succeeded)
    verdict = verdict.with_failures(missing.failures)
    return Completion(
        job=attempt.job,
        status="succeeded" if verdict.succeeded else "failed",
        reason=verdict.reason,
        error=verdict.detail,
        exit_code=ended.exit_code,
        missing_artifacts=missing.reported,
    )


async def serve(attempt: StepAttempt) -> Completion:
    """Run a service until it ends or is to stop.

    Raises RuntimeFailure, ValueError for a probe without a port.
    """
    mark = attempt.health_mark(attempt.running_unit)
    if not mark.exists():
        node = attempt.spec.node
        undeclared = node.ready is None and first_tcp_port(node) is None
        checks = undeclared and await attempt.context.runtime.has_health_check(attempt.running_unit)
        probe = choose_probe(node, image_has_health_check=checks)
        if failure := await _until_healthy(attempt, probe):
            return await _fail(attempt, failure)
        if not attempt.stop_requested.done():
            message = NO_PROBE_MESSAGE if isinstance(probe, StillRunning) else ""
            await attempt.report("healthy", message)
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
    ended = attempt.context.runtime.wait(attempt.running_unit)
    if await first_of(ended=ended, stop=attempt.stop_requested) == "ended":
        return await _fail(attempt, await _service_failure(attempt))
    if attempt.stop_reason == DETACH:
        return Completion(job=attempt.job, status="succeeded")
    exit_code = await _stop(attempt)
    missing = await _export_artifacts(attempt, succeeded=True)
    return Completion(
        job=attempt.job,
        status="canceled",
        reason="canceled",
        exit_code=exit_code,
        missing_artifacts=missing.reported,
    )


async def _until_healthy(attempt: StepAttempt, probe: Probe) -> Failure | None:
    """Wait until the service is ready or is to stop, then return None; else why it failed."""
    rules, ready = attempt.spec.evaluation, attempt.spec.node.ready
    limit_ms = ready.start_period_ms + ready.timeout_ms if ready else attempt.spec.timeout_ms
    attempt.probing.begin(limit_ms / 1000)
    try:
        first = await first_of(
            stop=attempt.stop_requested,
            matched=until_any_seen(attempt.log, *rules.fail_on_logs)
            if rules.fail_on_logs
            else None,
            ready=_until_ready(attempt, probe),
            ended=attempt.context.runtime.wait(attempt.running_unit),
            timeout_s=limit_ms / 1000,
        )
    finally:
        attempt.probing.end()
    if first == "matched":
        found = ", ".join(map(repr, attempt.log_matches().matched))
        return Failure(reason="fail_on_logs_matched", detail=f"a line contains {found}")
    if first == "ended":
        return await _service_failure(attempt)
    return _not_ready(attempt, limit_ms) if first == "timeout" else None


async def _until_ready(attempt: StepAttempt, probe: Probe) -> None:
    ready = attempt.spec.node.ready or Ready()
    await asyncio.sleep(ready.start_period_ms / 1000)
    if isinstance(probe, LogProbe):
        attempt.probing.note(f"no line contains {probe.text!r} yet", is_try=False)
    await attempt.context.prober.until_ready(
        probe,
        attempt.running_unit,
        attempt.log,
        headers=attempt.spec.headers,
        interval_s=ready.interval_ms / 1000,
        on_miss=attempt.note_probe,
    )
    if missing := attempt.log_matches().missing:
        texts = ", ".join(map(repr, missing))
        attempt.probing.note(f"the probe passed, but no line contains {texts} yet", is_try=False)
    await until_all_seen(attempt.log, *attempt.spec.evaluation.expect_logs)


def _not_ready(attempt: StepAttempt, limit_ms: int) -> Failure:
    if missing := attempt.log_matches().missing:
        texts = ", ".join(map(repr, missing))
        detail = f"no line contains {texts} within {limit_ms / 1000:g} s"
        return Failure(reason="expect_logs_missing", detail=detail)
    detail = f"its readiness probe did not pass within {limit_ms / 1000:g} s"
    if attempt.probe_problem:
        detail = f"{detail}: {attempt.probe_problem}"
    return Failure(reason="not_ready", detail=detail)


async def _service_failure(attempt: StepAttempt) -> Failure:
    return service_failure(await attempt.context.runtime.wait(attempt.running_unit))


async def _fail(attempt: StepAttempt, failure: Failure) -> Completion:
    exit_code = await _stop(attempt)
    missing = await _export_artifacts(attempt, succeeded=False)
    return Completion(
        job=attempt.job,
        status="failed",
        reason=failure.reason,
        error=failure.detail,
        exit_code=exit_code,
        missing_artifacts=missing.reported,
    )


async def _stop(attempt: StepAttempt) -> int:
    """Stop the unit, read its output to the end and return its exit code."""
    await attempt.context.runtime.stop(attempt.running_unit)
    ended = await attempt.context.runtime.wait(attempt.running_unit)
    await attempt.until_output_ends()
    return ended.exit_code


@dataclass(slots=True)
class _MissingFiles:
    """Declared artifacts without a file; `failures` has the required ones among them."""

    artifacts: list[MissingArtifact] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    @property
    def reported(self) -> tuple[MissingArtifact, ...]:
        return tuple(self.artifacts[:MISSING_ARTIFACTS])


async def _export_artifacts(attempt: StepAttempt, *, succeeded: bool) -> _MissingFiles:
    """Upload the step's artifacts; return those that are missing."""
    missing = _MissingFiles()
    for export in attempt.spec.exports:
        if not export.is_wanted(succeeded=succeeded):
            continue
        stored, hint = await _export(attempt, export)
        if stored:
            continue
        hint = attempt.log.mask(hint)[:HINT_CHARACTERS]
        path = attempt.log.mask(export.path)[:ARTIFACT_PATH_CHARACTERS]
        missing.artifacts.append(MissingArtifact(path=path, hint=hint))
        if export.required:
            detail = ": ".join(filter(None, (f"artifact {path} is missing", hint)))
            missing.failures.append(Failure(reason="artifact_missing", detail=detail))
    return missing


async def _export(attempt: StepAttempt, export: Export) -> tuple[int, str]:
    """Upload the files that match; return how many were stored, and why none was if known."""
    try:
        collected = await attempt.context.runtime.collect(attempt.running_unit, export.path)
    except PathRefused as error:
        return 0, str(error)
    for sentence in collected.skipped:
        await _warn(attempt, sentence)
    stored = sum([await _store(attempt, export, file) for file in collected.files])
    return stored, collected.hint or "; ".join(collected.skipped)


async def _store(attempt: StepAttempt, export: Export, file: CollectedFile) -> bool:
    upload = ArtifactUpload(
        path=attempt.log.mask(file.path),
        name=export.name,
        format=export.format,
        on=export.on,
        media_type=mimetypes.guess_type(file.path)[0] or "application/octet-stream",
        body=await asyncio.to_thread(_mask, attempt, file.body),
    )
    try:
        await retry_until_answered(lambda: attempt.context.control_plane.store(attempt.job, upload))
    except RequestRefused as error:
        await _warn(attempt, f"artifact {file.path} was refused: {error}")
        return False
    return True


def _mask(attempt: StepAttempt, body: bytes) -> bytes:
    """Return a text with its secrets masked, and other content as it is."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return body
    masked = attempt.log.mask(text)
    return body if masked == text else masked.encode()


async def _warn(attempt: StepAttempt, text: str) -> None:
    await attempt.log.append_system_line(text, level="warn")
