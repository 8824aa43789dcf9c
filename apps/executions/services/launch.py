"""Launches.

A launch does all checks first; then one transaction stores the run, its steps and its snapshot. An
idempotency key is stored with the run for 24 h (reference: control-plane 1.2).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db import IntegrityError
from django.db.models import F, Max

from apps.accounts.api import Principal, Role
from apps.agents.api import reasons_to_wait
from apps.executions import conf
from apps.executions.domain.commands import skip
from apps.executions.domain.events import RUN_SOURCE, events_topic, logs_topic
from apps.executions.domain.kept_environments import keep_wish
from apps.executions.domain.plan import Skip
from apps.executions.domain.runs import (
    Idempotency,
    IdempotencyKeyReused,
    Launched,
    LaunchRequest,
    QueueFull,
    RunSummary,
)
from apps.executions.domain.states import (
    ExecutionStatus,
    StatusCode,
    StepReason,
)
from apps.executions.domain.transitions import EventText, RunChange
from apps.executions.models import Execution, IdempotencyKey, Step
from apps.executions.selectors.attempts import attempts_of
from apps.executions.selectors.runs import summary
from apps.executions.services.admission import supersede
from apps.executions.services.enqueue import enqueue
from apps.executions.services.run_aggregate import load_run, load_runs, save_runs
from apps.executions.services.storage import (
    PackedSuite,
    default_keep_ms,
    keep_snapshot,
    packed_suite,
    store_snapshot,
)
from apps.observability.api import request_context
from apps.platform_settings.api import (
    Backend,
    provider_of,
    reference_problem,
    select_backend,
)
from apps.profiles.api import LaunchProfile, ProfileInvalid, SecretRef, select_profile
from apps.streams.api import open_topics, unit_of_work
from apps.suites.api import ResolvedSuite, find_suite, resolve_suite
from kernel import clock
from kernel.agent_protocol import LogLine
from kernel.ids import new_execution_id, new_job_id
from kernel.trace_context import TraceContext, new_span

IDEMPOTENCY_KEYS_KEPT: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBefore:
    """The run that a rerun repeats; `not_selected` are the indexes of the steps left out."""

    run_id: str
    first_run_id: str
    workspace_id: UUID
    not_selected: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A launch that passed every check; `packed` is made from `suite` and `profile`."""

    principal: Principal
    request: LaunchRequest
    suite: ResolvedSuite
    profile: LaunchProfile
    backend: Backend
    packed: PackedSuite
    request_id: str
    caller: TraceContext | None = None
    before: RunBefore | None = None  # of a rerun


def launch(
    principal: Principal, request: LaunchRequest, *, idempotency: Idempotency | None = None
) -> RunSummary:
    """Accept a run and return its Summary; see `launch_once`."""
    return launch_once(principal, request, idempotency=idempotency).summary


def launch_once(
    principal: Principal, request: LaunchRequest, *, idempotency: Idempotency | None = None
) -> Launched:
    """Accept a run, at most one per idempotency key, which is stored with it.

    Raise, in this order: Forbidden (role_required), IdempotencyKeyReused, SuiteNotFound,
    Forbidden (suite_refused), ProfileNotInSuite, ProfileInvalid, TopologyInvalid, BackendUnknown,
    BackendUnavailable, QueueFull. Nothing is stored unless all checks pass. The dispatch
    task is sent after the commit by another thread: a broker that does not respond neither blocks
    nor fails a launch.
    """
    principal.require(Role.RUNNER)
    if earlier := find_replay(idempotency):
        return earlier
    return launch_accepted(_check_request(principal, request), idempotency)


def launch_accepted(accepted: Accepted, idempotency: Idempotency | None) -> Launched:
    """Store a run that passed every check, and have it dispatched; raise QueueFull."""
    try:
        _, answer = store_run(accepted, idempotency)
    except IntegrityError:
        # another request with this key was first: its response is ours too
        if earlier := find_replay(idempotency):
            return earlier
        raise
    enqueue("executions.dispatch")
    return Launched(summary=answer)


def _check_request(principal: Principal, request: LaunchRequest) -> Accepted:
    found = find_suite(request.suite_id)
    principal.require_suite(found.suite_id)
    profile = select_profile(found.profiles, request.profile, suite_id=found.suite_id)
    refuse_unknown_providers(profile.secret_refs)
    suite = resolve_suite(found, profile_env=profile.env)
    for imported in suite.imports:
        refuse_unknown_providers(imported.secret_refs)
    backend = select_backend(request.backend, reasons_to_wait())
    return Accepted(
        principal=principal,
        request=request,
        suite=suite,
        profile=profile,
        backend=backend,
        packed=packed_suite(suite, profile),
        request_id=request_context().request_id,
        caller=request_context().trace,
    )


def refuse_unknown_providers(references: Iterable[SecretRef]) -> None:
    """Raise ProfileInvalid for a secret of a provider that there is not."""
    for reference in references:
        if provider_of(reference.provider, reference.ref) is None:
            problem = reference_problem(reference.provider, reference.ref)
            raise ProfileInvalid(f"secret {reference.key}: {problem}")


@unit_of_work
def store_run(
    accepted: Accepted, idempotency: Idempotency | None = None
) -> tuple[UUID, RunSummary]:
    """Return the run's key and Summary; raise QueueFull, or IntegrityError if the key is taken."""
    queued = Execution.objects.filter(status=ExecutionStatus.QUEUED.value, deleted_at=None)
    if queued.count() >= conf.max_queued():
        raise QueueFull(f"the queue is full ({conf.max_queued()} runs); try again later")
    execution = _execution(accepted)
    if accepted.before is not None:
        _join_attempts(execution, accepted.before)
    execution.save(force_insert=True)
    Step.objects.bulk_create(_steps(execution, accepted))
    open_topics([events_topic(execution.run_id), logs_topic(execution.run_id)])
    run = load_run(execution.pk)
    assert run is not None, "stored above"
    text = f"accepted: {accepted.suite.title} on {accepted.backend.label}"
    run.apply(RunChange({}, (EventText("queued", text),)))
    if printed := accepted.suite.print_lines:
        lines = [LogLine(run.now, "info", "system", text) for text in printed]
        run.outbox.append_log(RUN_SOURCE, lines)
    if accepted.before is not None:
        for index in sorted(accepted.before.not_selected):
            why = Skip(StepReason.NOT_SELECTED)
            run.apply(skip(run.step_state(index), why, run.plan))
    save_runs([run])
    _supersede_group(execution, accepted.principal)
    answer = summary(run.execution, now=run.now)
    if idempotency is not None:
        remember(idempotency, execution.run_id, answer)
    keep_snapshot(execution.snapshot, accepted.packed)
    return execution.pk, answer


def _supersede_group(execution: Execution, principal: Principal) -> None:
    """Cancel the queued runs of the group of a new run, and the active ones if it says so.

    A CI session cancels none that it does not reach.
    """
    if not execution.concurrency_group:
        return
    statuses = {ExecutionStatus.QUEUED}
    if execution.cancel_in_progress:
        statuses.add(ExecutionStatus.BOOTING)
    older = Execution.objects.filter(
        workspace_id=execution.workspace_id,
        concurrency_group=execution.concurrency_group,
        status__in=[str(status) for status in statuses],
        verdict="",
        deleted_at=None,
    ).exclude(pk=execution.pk)
    if principal.suites is not None:
        older = older.of_suites(principal.suites)
    runs = load_runs(older.values_list("pk", flat=True))
    for run in runs.values():
        if run.execution.status in statuses and not run.execution.verdict:
            supersede(run, execution.run_id)
    save_runs(runs.values())


def _execution(accepted: Accepted) -> Execution:
    request, suite, now = accepted.request, accepted.suite, clock.now()
    keep = keep_wish(request.keep_alive_ms, default_ms=default_keep_ms(suite, accepted.profile))
    caller = accepted.caller
    return Execution(
        run_id=new_execution_id(),
        workspace_id=accepted.principal.workspace_id,
        owner_id=accepted.principal.user_id,
        snapshot=store_snapshot(accepted.packed),
        suite_id=suite.id,
        suite_title=suite.title,
        suite_repository=suite.repository,
        profile=accepted.profile.file_name,
        backend_id=accepted.backend.backend_id,
        backend_label=accepted.backend.label,
        backend_kind=accepted.backend.kind,
        trigger=request.trigger,
        author=request.author or accepted.principal.full_name,
        launched_by=accepted.principal.ci_job,
        commit=request.commit,
        branch=request.branch,
        message=request.message,
        concurrency_group=request.concurrency.group if request.concurrency else "",
        cancel_in_progress=bool(request.concurrency and request.concurrency.cancel_in_progress),
        keep_alive_ms=keep.keep_ms,
        keep_only_failed=keep.only_failed,
        request_id=accepted.request_id,
        traceparent=str(new_span(below=caller)),
        parent_span_id=caller.span_id if caller else "",
        started_at=now,
        updated_at=now,
        deadline=now + conf.max_duration(),
        total_steps=len(suite.topology),
        standings=StatusCode.PENDING * len(suite.topology),
    )


def _join_attempts(execution: Execution, before: RunBefore) -> None:
    """Give a rerun its place: the next number among the attempts of its first run.

    All of them know the highest number, so that a deleted attempt leaves a gap. Their first write
    makes two reruns at once follow one another.
    """
    attempts = attempts_of(before.first_run_id)
    attempts.update(version=F("version") + 1)
    highest: int = attempts.aggregate(highest=Max("last_attempt"))["highest"] or 1
    attempts.update(last_attempt=highest + 1)
    execution.attempt = execution.last_attempt = highest + 1
    execution.first_run_id = before.first_run_id
    execution.rerun_of = before.run_id
    execution.workspace_id = before.workspace_id


def _steps(execution: Execution, accepted: Accepted) -> list[Step]:
    return [
        Step(
            execution=execution,
            index=index,
            step_id=node["id"],
            name=node["name"],
            kind=node["kind"],
            variant=node["variant"],
            level=node["level"],
            job_id=new_job_id(),
            backend_id=accepted.backend.backend_id,
        )
        for index, node in enumerate(accepted.suite.topology, start=1)
    ]


def find_replay(idempotency: Idempotency | None) -> Launched | None:
    """Return the stored response; raise IdempotencyKeyReused if the body is another one."""
    if idempotency is None:
        return None
    since = clock.now() - IDEMPOTENCY_KEYS_KEPT
    row = IdempotencyKey.objects.filter(scope=_scope(idempotency), created_at__gt=since).first()
    if row is None:
        return None
    if row.body_sha256 != _sha256(idempotency.body):
        raise IdempotencyKeyReused(
            "this Idempotency-Key was used before with a different request body"
        )
    return Launched(summary=row.answer, replayed=True)


def remember(idempotency: Idempotency, run_id: str, answer: RunSummary) -> None:
    """Store the response with the run; raise IntegrityError if another request was first."""
    scope = _scope(idempotency)
    IdempotencyKey.objects.filter(
        scope=scope, created_at__lte=clock.now() - IDEMPOTENCY_KEYS_KEPT
    ).delete()
    IdempotencyKey.objects.create(
        scope=scope,
        body_sha256=_sha256(idempotency.body),
        execution_run_id=run_id,
        answer=answer,
        created_at=clock.now(),
    )


def delete_old_idempotency_keys() -> None:
    IdempotencyKey.objects.filter(created_at__lte=clock.now() - IDEMPOTENCY_KEYS_KEPT).delete()


def _scope(idempotency: Idempotency) -> str:
    parts = (idempotency.principal, idempotency.method, idempotency.path, idempotency.key)
    return _sha256("\0".join(parts).encode())


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
