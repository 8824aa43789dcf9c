"""What the runner of a repeat reports: the states of its unit, its output, its artifacts, its end.

Each is refused with StaleAttempt unless the process holds the repeat now.
(reference: control-plane 11.8)
"""

from __future__ import annotations

from apps.executions.domain.agent_reports import LogGap, StaleAttempt
from apps.executions.domain.repeats import ACTIVE, RepeatEvent
from apps.executions.domain.retry_rules import reason_of
from apps.executions.domain.states import StepReason
from apps.executions.models import StepRepeat
from apps.executions.selectors.definitions import run_definition
from apps.executions.selectors.kept_environments import is_kept
from apps.executions.services.agent_reports import failed_tests, require_outcome
from apps.executions.services.artifact_objects import (
    PlacedBytes,
    discard_bytes,
    keep_bytes,
    place_bytes,
)
from apps.executions.services.artifact_uploads import (
    MAX_ARTIFACT_BYTES,
    ArtifactTooLarge,
    TestReport,
    read_report,
)
from apps.executions.services.expected_calls import (
    CallReport,
    ExpectingAttempt,
    call_report,
    calls_arrive_by,
    keep_report,
)
from apps.executions.services.repeat_claims import (
    NOT_KEPT_ANY_MORE,
    RepeatClaim,
    held_repeat,
    stop_reason,
)
from apps.executions.services.repeat_log import (
    append_output,
    append_system_line,
    change_repeat,
    end_repeat,
)
from apps.executions.services.run_aggregate import RunAggregate, read_run
from apps.executions.services.stored_files import new_artifact
from apps.streams.api import unit_of_work
from kernel.agent_protocol import (
    ArtifactUpload,
    Completion,
    JobDirective,
    LogChunk,
    StateReport,
)

_UNIT_STATES = {"image-pull": "pulling the image", "running": "started"}


@unit_of_work
def record_repeat_state(claim: RepeatClaim, report: StateReport) -> JobDirective:
    """Note what a unit does; a service that is ready is to be left running."""
    row = held_repeat(claim)
    text = ": ".join(filter(None, (report.message, report.detail)))
    if report.state == "healthy":
        append_system_line(row, text or "ready")
        return JobDirective(cancel_reason=stop_reason(row) or "detach")
    if text or report.state != "waiting":
        append_system_line(row, text or _UNIT_STATES.get(report.state, report.state))
    return JobDirective(cancel_reason=stop_reason(row))


@unit_of_work
def record_repeat_lines(claim: RepeatClaim, chunk: LogChunk) -> JobDirective:
    """Store the lines that are not stored yet; raise LogGap."""
    row = held_repeat(claim)
    if chunk.seq > row.next_seq:
        raise LogGap(row.next_seq)
    fresh = chunk.lines[row.next_seq - chunk.seq :]
    if fresh or chunk.position > row.position:
        definition = run_definition(row.execution.snapshot_id)
        keeps_output = definition.profile["observability"].get("logs", True)
        changes = append_output(row, fresh, keeps_output=keeps_output)
        position = max(row.position, chunk.position)
        change_repeat(row, next_seq=row.next_seq + len(fresh), position=position, **changes)
    return JobDirective(cancel_reason=stop_reason(row))


def store_repeat_artifact(claim: RepeatClaim, upload: ArtifactUpload) -> str:
    """Store an exported file and return its id; raise ArtifactTooLarge."""
    if len(upload.body) > MAX_ARTIFACT_BYTES:
        raise ArtifactTooLarge(f"an artifact has at most {MAX_ARTIFACT_BYTES} bytes")
    report = read_report(upload)  # may take a while: not within the transaction
    placed = place_bytes(held_repeat(claim).execution.run_id, upload.body)
    artifact_id, is_new = _store(claim, upload, report, placed)
    if not is_new:
        discard_bytes(placed)
    return artifact_id


@unit_of_work
def _store(
    claim: RepeatClaim, upload: ArtifactUpload, report: TestReport, placed: PlacedBytes
) -> tuple[str, bool]:
    row = held_repeat(claim)
    run = _run_of(row)
    same = row.artifacts.filter(path=upload.path, sha256=placed.sha256).first()
    if same is not None:
        return same.artifact_id, False
    artifact = new_artifact(run, row.index, upload, placed.sha256, repeat=row)
    artifact.stored_object = keep_bytes(placed)
    artifact.test_summary = report.summary
    artifact.save(force_insert=True)
    append_system_line(row, f"kept {upload.path}")
    if report.problem:
        append_system_line(row, f"{upload.path}: {report.problem}", level="warn")
    return artifact.artifact_id, True


def complete_repeat(claim: RepeatClaim, completion: Completion) -> None:
    """End a repeat as its unit ended; the same completion again is no error.

    The calls of mocks that the step expects are read before the transaction.
    Raise LogGap, InvalidInput.
    """
    require_outcome(completion)
    row = (
        StepRepeat.objects.select_related("execution")
        .filter(repeat_id=claim.repeat_id, holder=claim.holder)
        .first()
    )
    if row is None:
        raise StaleAttempt
    if row.state in ACTIVE:
        _complete(claim, completion, _calls_of(row, completion))


def _calls_of(row: StepRepeat, completion: Completion) -> CallReport | None:
    run = _run_of(row)
    expects = "expectCalls" in run.definition.nodes[row.index]
    if not expects or completion.outcome == "canceled" or row.started_at is None:
        return None
    attempt = ExpectingAttempt(
        run_id=run.execution.run_id,
        definition=run.definition,
        index=row.index,
        started_at=row.started_at,
    )
    return call_report(attempt, calls_arrive_by())


@unit_of_work
def _complete(claim: RepeatClaim, completion: Completion, calls: CallReport | None) -> None:
    row = held_repeat(claim)
    if completion.final_seq is not None and completion.final_seq > row.next_seq:
        raise LogGap(row.next_seq)
    if calls:
        keep_report(_run_of(row), row.index, calls, repeat=row)
    for each in completion.missing_artifacts:
        hint = f": {each.hint}" if each.hint else ""
        append_system_line(row, f"no file {each.path} was left{hint}", level="warn")
    code = completion.exit_code
    if not is_kept(row.execution.run_id):
        end_repeat(row, RepeatEvent.CANCELED, reason="canceled", detail=NOT_KEPT_ANY_MORE)
    elif completion.outcome == "canceled":
        reason = "canceled" if row.is_canceling else StepReason.AGENT_LOST.value
        event = RepeatEvent.CANCELED if row.is_canceling else RepeatEvent.FAILED
        detail = "" if row.is_canceling else "the supervisor gave it up"
        end_repeat(row, event, reason=reason, detail=detail, exit_code=code)
    elif failure := _failure(row, completion, calls):
        reason, detail = failure
        end_repeat(row, RepeatEvent.FAILED, reason=reason, detail=detail, exit_code=code)
    else:
        end_repeat(row, RepeatEvent.ENDED_WELL, exit_code=code)


def _failure(
    row: StepRepeat, completion: Completion, calls: CallReport | None
) -> tuple[str, str] | None:
    """Return reason and detail, judged as in a run (reference: control-plane 11.5)."""
    node = run_definition(row.execution.snapshot_id).nodes[row.index]
    tests = failed_tests(node, row.artifacts.all())
    if completion.outcome == "failed":
        reason = reason_of(completion.reason)
        counted = tests if reason is StepReason.EXIT_NONZERO else ""
        return reason.value, "; ".join(filter(None, [completion.error, counted]))
    missed = "; ".join(filter(None, [tests, calls.failures if calls else ""]))
    return (StepReason.TEST_FAILURES.value, missed) if missed else None


def _run_of(row: StepRepeat) -> RunAggregate:
    run = read_run(row.execution_id)
    if run is None:  # deleted meanwhile
        raise StaleAttempt
    return run
