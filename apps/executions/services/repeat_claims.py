"""Repeats of steps, the side of runners: take them, prepare them, and end what was lost.

A process of a supervisor holds a repeat under a lease. What it reports is refused with StaleAttempt
once it is no longer the holder (reference: control-plane 11.8).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from apps.executions.domain.agent_reports import StaleAttempt
from apps.executions.domain.kept_environments import keep_nudge
from apps.executions.domain.repeats import (
    LEASE,
    LOST_AFTER,
    RepeatEvent,
    RepeatState,
    advance_repeat,
    repeated_node,
)
from apps.executions.domain.states import StepReason
from apps.executions.models import StepRepeat
from apps.executions.selectors.definitions import archive_of, run_definition
from apps.executions.selectors.kept_environments import is_kept, kept_runs
from apps.executions.services.claims import step_spec
from apps.executions.services.mock_resets import WAITS_S, reset_mocks
from apps.executions.services.repeat_log import append_system_line, change_repeat, end_repeat
from apps.executions.services.run_aggregate import RunAggregate, read_run
from apps.executions.services.secrets import SecretUnresolved
from apps.executions.services.storage import stored_archive
from apps.streams.api import nudge, unit_of_work
from kernel import clock
from kernel.agent_protocol import JobDirective, StepSpecBody

_MAY_FOLLOW: Final = [RepeatState.SUCCEEDED.value, RepeatState.FAILED.value]
NOT_KEPT_ANY_MORE: Final = "the environment is no longer kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatClaim:
    """A repeat and the process that has it."""

    repeat_id: str
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRepeat:
    """What a supervisor needs to run it; `step_files` (tar+gzip) replace those of the step."""

    spec: StepSpecBody
    step_files: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRepeat:
    """A repeat of an earlier process of a supervisor, and the unit that it may have left."""

    claim: RepeatClaim
    run_id: str
    step_id: str
    attempt: int


def take_repeats(agent_id: str, holder: str) -> list[RepeatClaim]:
    """Take the repeats that wait for this supervisor, the oldest first."""
    waiting = StepRepeat.objects.filter(state=RepeatState.QUEUED.value, agent_id=agent_id)
    pks = list(waiting.order_by("created_at").values_list("pk", flat=True))
    return [claim for pk in pks if (claim := _take(pk, holder))]


@unit_of_work
def _take(pk: UUID, holder: str) -> RepeatClaim | None:
    row = StepRepeat.objects.select_related("execution").filter(pk=pk).first()
    if row is None or row.state != RepeatState.QUEUED:
        return None
    now = clock.now()
    change_repeat(
        row,
        state=advance_repeat(RepeatState.QUEUED, RepeatEvent.TAKEN).value,
        holder=holder,
        started_at=max(now, row.created_at),
        lease_expires_at=now + LEASE,
    )
    append_system_line(row, f"taken by {row.agent_id}")
    nudge(keep_nudge(row.execution.run_id))
    return RepeatClaim(repeat_id=row.repeat_id, holder=holder)


def held_repeat(claim: RepeatClaim, *, or_ended: bool = False) -> StepRepeat:
    """Return the row of a repeat that this process runs; raise StaleAttempt.

    With `or_ended` also of one that it has run, if its next attempt may follow.
    """
    states = [RepeatState.RUNNING.value, *(_MAY_FOLLOW if or_ended else ())]
    rows = StepRepeat.objects.select_related("execution").filter(
        repeat_id=claim.repeat_id, holder=claim.holder, state__in=states
    )
    row = rows.first()
    if row is None:
        raise StaleAttempt
    return row


def stop_reason(row: StepRepeat) -> str:
    """Return why the supervisor must stop it, "" if it goes on."""
    is_wanted = not row.is_canceling and is_kept(row.execution.run_id)
    return "" if is_wanted else "canceled"


def prepare_repeat(claim: RepeatClaim) -> PreparedRepeat | None:
    """Reset the mocks that the step resets, resolve its secrets, and return what to run.

    Return None if that fails; the repeat has then ended. Raise StaleAttempt.
    """
    row = held_repeat(claim)
    run = read_run(row.execution_id)
    if run is None or stop_reason(row):
        end_claimed(claim, RepeatEvent.CANCELED, "canceled")
        return None
    if fault := _reset_mocks(claim, run, row.index):
        end_claimed(claim, RepeatEvent.FAILED, StepReason.MOCK_NOT_READY, fault)
        return None
    try:
        spec = step_spec(run, row.index, attempt=row.attempt)
    except SecretUnresolved as error:
        end_claimed(claim, RepeatEvent.FAILED, "secret_unresolved", error.detail)
        return None
    return _prepare(row, spec)


def _prepare(row: StepRepeat, spec: StepSpecBody) -> PreparedRepeat:
    spec["node"] = repeated_node(spec["node"], row.command)
    spec["env"] = {**spec["env"], **row.env}
    spec["keepUnits"] = True
    files = stored_archive(row.content_sha256) if row.content_sha256 else None
    return PreparedRepeat(spec=spec, step_files=files)


def next_repeat(claim: RepeatClaim) -> PreparedRepeat | None:
    """Return what would run if the same were asked for again, so that it can be made ready.

    Return None unless the repeat has ended, was not canceled, and its environment is still kept.
    """
    rows = StepRepeat.objects.select_related("execution")
    row = rows.filter(repeat_id=claim.repeat_id, holder=claim.holder, state__in=_MAY_FOLLOW).first()
    run = read_run(row.execution_id) if row else None
    if row is None or run is None or not is_kept(row.execution.run_id):
        return None
    try:
        spec = step_spec(run, row.index, attempt=row.attempt + 1)
    except SecretUnresolved:
        return None
    return _prepare(row, spec)


def _reset_mocks(claim: RepeatClaim, run: RunAggregate, index: int) -> str:
    """Return why a mock that the step resets may not be empty, "" if all are."""
    mock_ids = run.definition.nodes[index].get("resetMocks", ())
    if not mock_ids:
        return ""
    until = time.monotonic() + WAITS_S
    fault = reset_mocks(run.definition, run.execution.run_id, mock_ids, until=until)
    if not fault:
        _note(claim, f"the state of {', '.join(mock_ids)} is empty")
    return fault


@unit_of_work
def _note(claim: RepeatClaim, text: str) -> None:
    append_system_line(held_repeat(claim), text)


@unit_of_work
def end_claimed(claim: RepeatClaim, event: RepeatEvent, reason: str, detail: str = "") -> None:
    """End a repeat that this process holds; nothing happens if it does not any more."""
    try:
        row = held_repeat(claim)
    except StaleAttempt:
        return
    if event is RepeatEvent.CANCELED and not is_kept(row.execution.run_id):
        detail = NOT_KEPT_ANY_MORE
    end_repeat(row, event, reason=str(reason), detail=detail)


def fail_repeat(claim: RepeatClaim, detail: str) -> None:
    """Fail a repeat for a fault of the platform; nothing happens if it has ended."""
    end_claimed(claim, RepeatEvent.FAILED, StepReason.INTERNAL_ERROR, detail)


def source_files(claim: RepeatClaim) -> bytes:
    """Return the files of the suite that declares the step (tar+gzip), empty without any.

    Also for a repeat that has ended, whose next attempt is made ready. Raise StaleAttempt.
    """
    row = held_repeat(claim, or_ended=True)
    snapshot_id = row.execution.snapshot_id
    content = run_definition(snapshot_id).content(row.index)
    return archive_of(snapshot_id, content) if content else b""


@unit_of_work
def renew_repeats(claims: Collection[RepeatClaim]) -> Mapping[RepeatClaim, JobDirective | None]:
    """Renew the leases of repeats; the answer is None for one that is not held any more."""
    expires_at = clock.now() + LEASE
    answers: dict[RepeatClaim, JobDirective | None] = {}
    for claim in claims:
        try:
            row = held_repeat(claim)
        except StaleAttempt:
            answers[claim] = None
            continue
        change_repeat(row, lease_expires_at=expires_at)
        answers[claim] = JobDirective(cancel_reason=stop_reason(row))
    return answers


def lost_repeats(agent_id: str, holder: str) -> list[LostRepeat]:
    """Return what earlier processes of the supervisor were running when they ended."""
    rows = StepRepeat.objects.select_related("execution").filter(
        state=RepeatState.RUNNING.value, agent_id=agent_id
    )
    return [
        LostRepeat(
            claim=RepeatClaim(repeat_id=row.repeat_id, holder=row.holder),
            run_id=row.execution.run_id,
            step_id=row.step_id,
            attempt=row.attempt,
        )
        for row in rows.exclude(holder=holder)
    ]


def end_lost_repeat(lost: LostRepeat) -> None:
    """Fail a repeat whose runner has ended and started again."""
    text = "the runner restarted while the step ran; run it again"
    end_claimed(lost.claim, RepeatEvent.FAILED, StepReason.AGENT_LOST, text)


def cancel_unkept_repeats() -> None:
    """Cancel the repeats that wait in environments that are no longer kept."""
    waiting = StepRepeat.objects.filter(state=RepeatState.QUEUED.value)
    kept = kept_runs().values_list("pk", flat=True)
    pks = waiting.values_list("pk", "execution_id")
    if rows := list(pks):
        known = set(kept.filter(pk__in=[execution_pk for _, execution_pk in rows]))
        for pk, execution_pk in rows:
            if execution_pk not in known:
                _cancel_unkept(pk)


@unit_of_work
def _cancel_unkept(pk: UUID) -> None:
    row = StepRepeat.objects.select_related("execution").filter(pk=pk).first()
    if row and row.state == RepeatState.QUEUED and not is_kept(row.execution.run_id):
        end_repeat(row, RepeatEvent.CANCELED, reason="canceled", detail=NOT_KEPT_ANY_MORE)


def end_expired_repeats() -> None:
    """End the repeats whose supervisor has not renewed its lease for long."""
    late = StepRepeat.objects.filter(
        state=RepeatState.RUNNING.value, lease_expires_at__lt=clock.now() - LOST_AFTER
    )
    for repeat_id, holder in list(late.values_list("repeat_id", "holder")):
        _end_expired(RepeatClaim(repeat_id=repeat_id, holder=holder))


@unit_of_work
def _end_expired(claim: RepeatClaim) -> None:
    try:
        row = held_repeat(claim)
    except StaleAttempt:
        return
    if row.lease_expires_at is None or row.lease_expires_at >= clock.now() - LOST_AFTER:
        return
    if is_kept(row.execution.run_id):
        text = f"its supervisor {row.agent_id} was lost"
        end_repeat(row, RepeatEvent.FAILED, reason=StepReason.AGENT_LOST.value, detail=text)
    else:
        end_repeat(row, RepeatEvent.CANCELED, reason="canceled", detail=NOT_KEPT_ANY_MORE)
