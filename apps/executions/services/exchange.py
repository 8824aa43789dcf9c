"""The group commit of supervisors: what happened to their jobs, and new work, together."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from apps.executions.domain.attempts import reason_of
from apps.executions.domain.plan import upstream
from apps.executions.domain.reports import (
    Completion,
    ExchangeAnswer,
    JobNotFound,
    LogChunk,
    LogGap,
    Recorded,
    StaleAttempt,
    StateReport,
    Supervisor,
)
from apps.executions.domain.states import JobState, StepReason, StepStatus
from apps.executions.models import Artifact, Step
from apps.executions.selectors.plans import JobPlace, places_of_jobs
from apps.executions.services import moves
from apps.executions.services.board import Board, open_boards, write_boards
from apps.executions.services.claims import Claimed, claim_steps
from apps.executions.services.measuring import report_refused
from apps.executions.services.output import keep_output
from apps.executions.services.settling import settle
from apps.executions.services.specs import specs_of
from apps.executions.services.usage import figures
from apps.streams.api import unit_of_work
from kernel.errors import InvalidInput, PlatformError

Report = TypeVar("Report", StateReport, LogChunk, Completion)
Answer = Recorded | PlatformError
_UNIT_STATES: Final = {
    "image-pull": "pulling the image",
    "running": "started",
    "adopted": "adopted by its supervisor's successor",
}


def exchange(
    supervisor: Supervisor,
    *,
    states: Sequence[StateReport] = (),
    chunks: Sequence[LogChunk] = (),
    completions: Sequence[Completion] = (),
    claims: int = 0,
    looks_around: bool = True,
) -> ExchangeAnswer:
    """Record every report, in that order, plan what follows, and claim up to `claims` steps.

    `looks_around` False: claim only what these reports set free; a query less, for callers who
    looked for other steps a moment ago and were not told of new ones.
    One report that is refused (StaleAttempt, LogGap, JobNotFound, InvalidInput in its place of the
    answer) does not touch the others. Secrets are resolved after the transaction, for the answer.
    """
    reports = (states, chunks, completions)
    answers, claimed = _exchange(supervisor, reports, claims, looks_around=looks_around)
    return ExchangeAnswer(
        states=answers[0],
        chunks=answers[1],
        completions=answers[2],
        claimed=specs_of(claimed),
    )


@unit_of_work
def _exchange(
    supervisor: Supervisor,
    reports: tuple[Sequence[StateReport], Sequence[LogChunk], Sequence[Completion]],
    claims: int,
    *,
    looks_around: bool,
) -> tuple[tuple[tuple[Answer, ...], ...], list[Claimed]]:
    states, chunks, completions = reports
    table = _Table(supervisor, [*states, *chunks, *completions])
    answers = (
        table.apply(states, _record_state),
        table.apply(chunks, _record_chunk),
        table.apply(completions, _record_completion),
    )
    for board in table.boards.values():
        settle(board)
    claimed = claim_steps(supervisor, table.boards, limit=claims, looks_around=looks_around)
    write_boards(table.boards.values())
    return answers, claimed


class _Table:
    """The boards of the runs that a set of reports is about."""

    def __init__(self, supervisor: Supervisor, reports: Iterable[Any]) -> None:
        self._supervisor = supervisor
        self._places: dict[str, JobPlace] = places_of_jobs({report.job_id for report in reports})
        rows: dict[UUID, list[int]] = defaultdict(list)
        for execution_pk, at in self._places.values():
            rows[execution_pk].append(at)
        self.boards: dict[UUID, Board] = open_boards(rows, rows=rows)

    def apply(
        self,
        reports: Sequence[Report],
        record: Callable[[Board, int, Report], Recorded],
    ) -> tuple[Answer, ...]:
        """The answers in the order of `reports`; those of services are applied first."""
        order = sorted(range(len(reports)), key=lambda nth: not self._is_service(reports[nth]))
        answers = {nth: self._apply(reports[nth], record) for nth in order}
        return tuple(answers[nth] for nth in range(len(reports)))

    def _is_service(self, report: Any) -> bool:
        execution_pk, at = self._places.get(report.job_id, (None, 0))
        board = self.boards.get(execution_pk) if execution_pk else None
        return board is not None and board.run.plan.nodes[at].kind == "service"

    def _apply(self, report: Report, record: Callable[[Board, int, Report], Recorded]) -> Answer:
        try:
            board, at = self._find(report.job_id)
            if not is_identical_again(board.row(at), self._supervisor, report):
                refuse_stale(board.row(at), self._supervisor, report.attempt)
                return record(board, at, report)
            return Recorded(next_seq=board.row(at).next_seq)
        except PlatformError as refusal:  # each refuses before it changes anything
            if isinstance(refusal, StaleAttempt):
                report_refused()
            return refusal

    def _find(self, job_id: str) -> tuple[Board, int]:
        execution_pk, at = self._places.get(job_id, (None, 0))
        board = self.boards.get(execution_pk) if execution_pk else None
        if board is None:
            raise JobNotFound
        return board, at


def refuse_stale(step: Step, supervisor: Supervisor, attempt: int) -> None:
    """Fencing: raises StaleAttempt unless this process holds this attempt now.

    (reference: control-plane 15.2)
    """
    if (
        step.job_state != JobState.RUNNING
        or step.attempt != attempt
        or step.agent_id != supervisor.agent_id
        or step.incarnation != supervisor.incarnation
    ):
        raise StaleAttempt


def is_identical_again(step: Step, supervisor: Supervisor, report: object) -> bool:
    """A supervisor that did not hear the answer to a completion sends it again."""
    return (
        isinstance(report, Completion)
        and bool(step.last_completion)
        and step.last_completion == _fingerprint(supervisor.agent_id, report)
    )


def _record_state(board: Board, at: int, report: StateReport) -> Recorded:
    row = board.row(at)
    text = ": ".join(filter(None, (report.message, report.detail)))
    if report.state == "healthy":
        _record_healthy(board, at, text)
    elif report.state not in _UNIT_STATES:
        raise InvalidInput(f"state must be running or healthy, not {report.state!r}")
    elif report.state != "running" or row.unit_started_at is None:
        if report.state == "running":
            board.change(at, unit_started_at=board.now)
        board.say(at, report.state, text or _UNIT_STATES[report.state])
    return _recorded(row)


def _record_healthy(board: Board, at: int, text: str) -> None:
    if board.run.plan.nodes[at].kind != "service":
        raise InvalidInput("only service steps report healthy; others complete")
    if board.statuses[at] is StepStatus.RUNNING:
        moves.heal(board, at, text or "ready")


def _record_chunk(board: Board, at: int, chunk: LogChunk) -> Recorded:
    row = board.row(at)
    if chunk.seq > row.next_seq:
        raise LogGap(row.next_seq)
    fresh = chunk.lines[row.next_seq - chunk.seq :]
    position = max(row.position, chunk.position)
    if fresh or position != row.position:
        keep_output(board, at, fresh)
        board.change(at, next_seq=row.next_seq + len(fresh), position=position)
    return _recorded(row)


def _record_completion(board: Board, at: int, completion: Completion) -> Recorded:
    row = board.row(at)
    if completion.final_seq is not None and completion.final_seq > row.next_seq:
        raise LogGap(row.next_seq)
    if completion.outcome not in ("succeeded", "failed", "canceled"):
        raise InvalidInput(
            f"status must be succeeded, failed or canceled, not {completion.status!r}"
        )
    _record_usage(board, at, completion)
    _say_artifacts(board, at)
    board.change(at, last_completion=_fingerprint(row.agent_id, completion))
    _complete(board, at, completion)
    return _recorded(row)


def _complete(board: Board, at: int, completion: Completion) -> None:
    row = board.row(at)
    if completion.outcome == "canceled":
        if row.cancel_reason:
            moves.end_stopped(board, at)
        elif row.unit_started_at is None:
            moves.give_back(board, at, "its supervisor gave it back before the container started")
        else:
            moves.lose(board, at, "its supervisor gave it up")
    elif row.status == StepStatus.HEALTHY:
        _service_ended(board, at, completion)
    elif completion.outcome == "failed":
        _failed(board, at, completion)
    else:
        _succeeded(board, at, completion)


def _failed(board: Board, at: int, completion: Completion) -> None:
    """A step whose service ended beside it has failed for that: it is reset if all can be."""
    reason, code = reason_of(completion.reason), completion.exit_code
    fail = partial(moves.fail, board, at, reason, completion.error, exit_code=code)
    if not board.replaced.keys().isdisjoint(upstream(board.run.plan, at)):
        board.voided[at] = fail
    else:
        fail()


def _service_ended(board: Board, at: int, completion: Completion) -> None:
    if board.row(at).cancel_reason:
        if completion.outcome == "failed":
            moves.blame(board, at, StepReason.SERVICE_EXITED)
        moves.end_stopped(board, at)
        return
    text = completion.error or "the service ended"
    moves.fail(board, at, StepReason.SERVICE_EXITED, text, exit_code=completion.exit_code)


def _succeeded(board: Board, at: int, completion: Completion) -> None:
    code = completion.exit_code
    if board.run.plan.nodes[at].kind == "service":
        text = "the service ended before it was ready"
        moves.fail(board, at, StepReason.SERVICE_EXITED, text, exit_code=code)
    elif failures := _test_failures(board, at):
        moves.fail(board, at, StepReason.TEST_FAILURES, failures, exit_code=code)
    else:
        moves.heal(board, at, "ended as expected", exit_code=code)


def _test_failures(board: Board, at: int) -> str:
    """In words, what the attempt's reports count; empty for nothing, or when exit ≠ 0 was due."""
    node = board.run.nodes[at]
    exports = node.get("artifactExports", ())
    if not any(export["format"] in ("junit", "ctrf") for export in exports):
        return ""
    if node.get("evaluation", {}).get("expectExit", 0):
        return ""
    summaries = _artifacts(board, at).exclude(test_summary=None)
    counted = [summary for summary in summaries.values_list("test_summary", flat=True) if summary]
    failures = sum(summary["failures"] for summary in counted)
    errors = sum(summary["errors"] for summary in counted)
    total = sum(summary["total"] for summary in counted)
    return f"{failures} failures, {errors} errors of {total} tests" if failures + errors else ""


def _artifacts(board: Board, at: int) -> Any:
    return Artifact.objects.filter(
        execution_id=board.execution.pk,
        step_id=board.run.plan.nodes[at].id,
        attempt=board.attempt(at),
    )


def _say_artifacts(board: Board, at: int) -> None:
    if not board.run.nodes[at].get("artifactExports"):
        return
    paths = list(_artifacts(board, at).order_by("created_at").values_list("path", flat=True))
    if paths:
        board.say(at, "artifacts", f"kept {', '.join(paths)}")


def _record_usage(board: Board, at: int, completion: Completion) -> None:
    if usage := completion.usage:
        board.change(at, **figures(board.row(at), usage))


def _recorded(row: Step) -> Recorded:
    return Recorded(next_seq=row.next_seq, cancel_reason=row.cancel_reason)


def _fingerprint(agent_id: str, completion: Completion) -> str:
    """The same for two identical completions of one attempt, also of different jobs."""
    parts = (
        agent_id,
        completion.attempt,
        completion.outcome,
        completion.reason,
        completion.error,
        completion.exit_code,
        completion.final_seq,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:40]
