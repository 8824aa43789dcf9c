"""Repeats of steps, the side of people: ask for one, and cancel it.

(reference: control-plane 11.8)
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

from django.db.models import Max

from apps.accounts.api import Principal, Role
from apps.executions import conf
from apps.executions.domain.kept_environments import KeptRun, keep_nudge
from apps.executions.domain.repeats import (
    ACTIVE,
    MAX_ACTIVE,
    MAX_REPEATS,
    REPEATS_NUDGE,
    RepeatActive,
    RepeatEvent,
    RepeatFinished,
    RepeatRequest,
    RepeatState,
    RepeatUnavailable,
    check_overrides,
    invalid_field,
    refuse_kind,
    repeat_topic,
)
from apps.executions.domain.runs import ExecutionNotFound
from apps.executions.domain.steps import step_index
from apps.executions.models import StepRepeat
from apps.executions.selectors.kept_environments import kept_run
from apps.executions.selectors.repeats import (
    RepeatDocument,
    get_repeat,
    repeat_document,
)
from apps.executions.selectors.runs import get_execution
from apps.executions.services.repeat_log import append_system_line, change_repeat, end_repeat
from apps.executions.services.run_aggregate import RunAggregate, load_run
from apps.executions.services.stored_files import store_blob
from apps.streams.api import nudge, open_topics, unit_of_work
from kernel import clock
from readers.archive import ArchiveRefused, pack, unpack

_ACTIVE: Final = [str(state) for state in ACTIVE]


def repeat_step(principal: Principal, run_id: str, request: RepeatRequest) -> RepeatDocument:
    """Run a step once more in the kept environment of its run, as soon as a runner takes it.

    Raise, in this order: ExecutionNotFound, Forbidden, NotKept, RepeatUnavailable, InvalidInput,
    RepeatActive.
    """
    get_execution(principal, run_id)
    principal.require(Role.RUNNER)
    kept_run(principal, run_id)
    check_overrides(request, conf.env_prefixes())
    archive = pack(request.files) if request.files else b""  # not within the transaction
    return repeat_document(_store(principal, run_id, request, archive), run_id)


def files_of_archive(archive: bytes) -> dict[str, bytes]:
    """Return the files of a tar.gz by the rules for packages of suites; raise InvalidInput."""
    try:
        files = unpack(archive)
    except ArchiveRefused as error:
        raise invalid_field("contentBase64", f"the archive is refused: {error}") from None
    if not files:
        raise invalid_field("contentBase64", "the archive has no files")
    return files


@unit_of_work
def _store(principal: Principal, run_id: str, request: RepeatRequest, archive: bytes) -> StepRepeat:
    kept = kept_run(principal, run_id)
    run = load_run(kept.execution_pk)  # first a write: what is asked at the same time waits here
    if run is None:
        raise ExecutionNotFound
    kept = kept_run(principal, run_id)
    _refuse_unreached(run, kept)
    index = _index_of(run, request.step)
    node = run.plan.nodes[index]
    refuse_kind(node.id, node.kind)
    _refuse_too_many(run, node.id)
    row = StepRepeat(
        execution_id=kept.execution_pk,
        repeat_id=f"repeat-{secrets.token_hex(6)}",
        step_id=node.id,
        index=index,
        kind=node.kind,
        attempt=_next_attempt(run, index),
        job_id=run.rows.keys.job_ids[index],
        command=request.command,
        env=dict(request.env),
        asked_by_id=principal.user_id,
        asked_by=principal.label[:700],
        state=RepeatState.QUEUED.value,
        created_at=clock.now(),
        agent_id=kept.agent_id,
    )
    if archive:
        row.content_sha256 = hashlib.sha256(archive).hexdigest()
        row.content_size = len(archive)
        store_blob(row.content_sha256, archive)
    row.save(force_insert=True)
    open_topics([repeat_topic(row.repeat_id)])
    append_system_line(row, _asked_text(row))
    nudge(REPEATS_NUDGE)
    nudge(keep_nudge(run_id))
    return row


def _refuse_unreached(run: RunAggregate, kept: KeptRun) -> None:
    """Raise RepeatUnavailable where no runner of this installation has the units."""
    if run.execution.backend_kind == "remote-agent":
        raise RepeatUnavailable(
            f"{run.execution.run_id} ran on {run.execution.backend_label}, a worker, which cannot "
            "run a step again; run the whole step again with a rerun"
        )
    if not kept.agent_id:
        raise RepeatUnavailable(f"no runner has the environment of {run.execution.run_id}")


def _index_of(run: RunAggregate, step: str) -> int:
    """Return the index of the step with this id or name; raise InvalidInput."""
    ids = [node.id for node in run.plan.nodes]
    names = [str(node["name"]) for node in run.definition.nodes]
    return step_index(step, ids=ids, names=names, pointer="/stepId")


def _refuse_too_many(run: RunAggregate, step_id: str) -> None:
    """Raise RepeatActive or RepeatUnavailable."""
    rows = StepRepeat.objects.filter(execution_id=run.execution.pk)
    active = list(rows.filter(state__in=_ACTIVE).values_list("step_id", "repeat_id"))
    for other_step, repeat_id in active:
        if other_step == step_id:
            raise RepeatActive(
                f"{step_id} is being run again: wait for {repeat_id}, or cancel it",
                members={"repeatId": repeat_id},
            )
    if len(active) >= MAX_ACTIVE:
        steps = ", ".join(sorted(step for step, _ in active))
        raise RepeatActive(f"{MAX_ACTIVE} steps of this run are being run again: {steps}")
    if rows.count() >= MAX_REPEATS:
        raise RepeatUnavailable(f"steps of one run can be run again {MAX_REPEATS} times")


def _next_attempt(run: RunAggregate, index: int) -> int:
    """Return the number after all attempts of the step, those in the run and those after it."""
    rows = StepRepeat.objects.filter(
        execution_id=run.execution.pk, step_id=run.plan.nodes[index].id
    )
    last = rows.aggregate(last=Max("attempt"))["last"] or 0
    return max(last, run.attempt(index)) + 1


def _asked_text(row: StepRepeat) -> str:
    """Return who asked for what; values of variables are not repeated."""
    parts = []
    if row.command:
        parts.append(f"with the command {row.command!r}")
    if row.env:
        parts.append(f"with {', '.join(sorted(row.env))} set")
    if row.content_sha256:
        parts.append(f"with other files ({row.content_size} bytes packed)")
    what = " ".join(["run again after the verdict", ", ".join(parts)]).strip()
    return f"{row.step_id} #{row.attempt}: {what}, asked for by {row.asked_by}"


@unit_of_work
def cancel_repeat(principal: Principal, run_id: str, repeat_id: str) -> RepeatDocument:
    """Cancel a repeat: at once while it waits, else its runner stops it.

    Raise ExecutionNotFound, RepeatNotFound, Forbidden, RepeatFinished.
    """
    get_repeat(principal, run_id, repeat_id)
    principal.require(Role.RUNNER)
    row = get_repeat(principal, run_id, repeat_id)
    if row.state not in ACTIVE:
        raise RepeatFinished(f"{row.repeat_id} has already ended: {row.state}")
    if row.state == RepeatState.QUEUED:
        end_repeat(row, RepeatEvent.CANCELED, reason="canceled", detail=f"by {principal.label}")
    elif not row.is_canceling:
        change_repeat(row, is_canceling=True)
        append_system_line(row, f"asked to stop by {principal.label}", level="warn")
        nudge(REPEATS_NUDGE)
    return repeat_document(row, run_id)
