"""Accepting a run: every check first, then one transaction that stores all of it or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import IntegrityError

from apps.accounts.api import Principal
from apps.agents.api import online_agents
from apps.executions import conf
from apps.executions.domain.event_ids import RUN_SOURCE
from apps.executions.domain.launching import (
    Idempotency,
    Launched,
    LaunchRequest,
    QueueFull,
)
from apps.executions.domain.reports import LogLine
from apps.executions.domain.secret_refs import source_of
from apps.executions.domain.standings import PENDING
from apps.executions.domain.states import ExecutionStatus
from apps.executions.domain.topics import events_topic, logs_topic
from apps.executions.models import Execution, Step
from apps.executions.selectors.launchable import is_available
from apps.executions.selectors.summaries import summary
from apps.executions.services.board import open_board, write_boards
from apps.executions.services.enqueue import enqueue
from apps.executions.services.idempotency import remember, replayed
from apps.executions.services.snapshots import PackedSuite, packed_suite, store_snapshot
from apps.platform_settings.api import Backend, select_backend
from apps.profiles.api import LaunchProfile, ProfileInvalid, select_profile
from apps.streams.api import open_topics, unit_of_work
from apps.suites.api import ResolvedSuite, find_suite, resolve
from apps.system.api import request_context
from kernel import clock
from kernel.errors import NotAvailable
from kernel.ids import new_execution_id, new_job_id
from kernel.trace_context import TraceContext, new_span


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A launch that passed every check; `packed` is made of `suite` and `profile`."""

    principal: Principal
    request: LaunchRequest
    suite: ResolvedSuite
    profile: LaunchProfile
    backend: Backend
    packed: PackedSuite
    request_id: str
    caller: TraceContext | None = None


def launch(
    principal: Principal, request: LaunchRequest, *, idempotency: Idempotency | None = None
) -> dict[str, Any]:
    """Accept a run and return its Summary; see `launch_once`."""
    return launch_once(principal, request, idempotency=idempotency).summary


def launch_once(
    principal: Principal, request: LaunchRequest, *, idempotency: Idempotency | None = None
) -> Launched:
    """Accept a run, at most one for an idempotency key, which is stored with it.

    Raises, in this order: IdempotencyKeyReused, SuiteNotFound, ProfileNotInSuite, ProfileInvalid,
    TopologyInvalid, BackendUnknown, BackendUnavailable, QueueFull; NotAvailable for keep-alive.
    Nothing is stored unless all checks pass. A dispatcher is told after the commit, from a thread
    of its own: a broker that is away neither blocks nor fails a launch.
    """
    if earlier := replayed(idempotency):
        return earlier
    accepted = _checked(principal, request)
    try:
        _, answer = store_run(accepted, idempotency)
    except IntegrityError:
        # two at once with one key: the other was first, its answer is ours
        if earlier := replayed(idempotency):
            return earlier
        raise
    enqueue("executions.dispatch")
    return Launched(summary=answer)


def _checked(principal: Principal, request: LaunchRequest) -> Accepted:
    suite_id = find_suite(request.suite_id).suite_id
    profile = select_profile(suite_id, request.profile)
    _refuse_unknown_providers(profile)
    suite = resolve(request.suite_id, profile_env=profile.env)
    online = online_agents()
    backend = select_backend(request.backend, lambda one: is_available(one, online))
    if request.keep_alive_ms:
        raise NotAvailable("keepAliveMs: keeping environments alive is not available yet; send 0")
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


def _refuse_unknown_providers(profile: LaunchProfile) -> None:
    for reference in profile.secret_refs:
        if source_of(reference.provider, reference.ref) is None:
            raise ProfileInvalid(
                f"secret {reference.key}: there is no secret provider {reference.provider!r}"
            )


@unit_of_work
def store_run(
    accepted: Accepted, idempotency: Idempotency | None = None
) -> tuple[UUID, dict[str, Any]]:
    """The run's key and Summary. Raises QueueFull, and IntegrityError when the key is taken."""
    queued = Execution.objects.filter(status=ExecutionStatus.QUEUED.value, deleted_at=None)
    if queued.count() >= conf.max_queued():
        raise QueueFull(f"{conf.max_queued()} runs are queued; try again later")
    execution = _execution(accepted)
    execution.save(force_insert=True)
    Step.objects.bulk_create(_steps(execution, accepted))
    open_topics([events_topic(execution.run_id), logs_topic(execution.run_id)])
    board = open_board(execution.pk)
    assert board is not None, "made two statements above"
    board.say_of_run("queued", f"accepted: {accepted.suite.title} on {accepted.backend.label}")
    if printed := accepted.suite.print_lines:
        lines = [LogLine(board.now, "info", "system", text) for text in printed]
        board.print(RUN_SOURCE, lines)
    write_boards([board])
    answer = summary(board.execution, now=board.now)
    if idempotency is not None:
        remember(idempotency, execution.run_id, answer)
    return execution.pk, answer


def _execution(accepted: Accepted) -> Execution:
    request, suite, now = accepted.request, accepted.suite, clock.now()
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
        commit=request.commit,
        branch=request.branch,
        message=request.message,
        request_id=accepted.request_id,
        traceparent=str(new_span(below=caller)),
        parent_span_id=caller.span_id if caller else "",
        started_at=now,
        updated_at=now,
        deadline=now + conf.max_duration(),
        total_steps=len(suite.topology),
        standings=PENDING * len(suite.topology),
    )


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
