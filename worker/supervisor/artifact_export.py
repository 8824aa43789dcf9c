"""Taking artifacts out of an ended unit and handing them in."""

from __future__ import annotations

import mimetypes

from worker.domain.control_plane import RequestRefused, Upload
from worker.domain.evaluation import Failure
from worker.domain.runtime import Collected, CollectedFile, PathRefused
from worker.domain.step_spec import Export
from worker.supervisor.attempt import StepAttempt
from worker.supervisor.retry import retry_until_answered


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
