"""Launches: all checks first, then one transaction that stores the run, its steps and snapshot.

An idempotency key is stored with the run for 24 h (reference: control-plane 1.2).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError

from apps.accounts.api import Principal
from apps.agents.api import online_agents
from apps.executions import conf
from apps.executions.domain.agent_reports import LogLine
from apps.executions.domain.events import RUN_SOURCE, events_topic, logs_topic
from apps.executions.domain.runs import (
    Idempotency,
    IdempotencyKeyReused,
    Launched,
    LaunchRequest,
    QueueFull,
)
from apps.executions.domain.secret_refs import source_of
from apps.executions.domain.states import ExecutionStatus
from apps.executions.domain.status_codes import PENDING
from apps.executions.models import Execution, IdempotencyKey, Snapshot, Step
from apps.executions.selectors.launchable import is_available
from apps.executions.selectors.runs import summary
from apps.executions.services.artifacts import store_blob
from apps.executions.services.enqueue import enqueue
from apps.executions.services.run_aggregate import load_run, save_runs
from apps.observability.api import request_context
from apps.platform_settings.api import Backend, select_backend
from apps.profiles.api import LaunchProfile, ProfileInvalid, select_profile
from apps.streams.api import open_topics, unit_of_work
from apps.suites.api import ResolvedSuite, find_suite, resolve
from kernel import clock
from kernel.errors import NotAvailable
from kernel.ids import new_execution_id, new_job_id, new_uuid
from kernel.trace_context import TraceContext, new_span

IDEMPOTENCY_KEYS_KEPT: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedSuite:
    """A snapshot before it is stored; `archive` has the files as tar.gz, or is empty."""

    digest: str
    document: bytes
    archive: bytes
    archive_sha256: str


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


def launch(
    principal: Principal, request: LaunchRequest, *, idempotency: Idempotency | None = None
) -> dict[str, Any]:
    """Accept a run and return its Summary; see `launch_once`."""
    return launch_once(principal, request, idempotency=idempotency).summary


def launch_once(
    principal: Principal, request: LaunchRequest, *, idempotency: Idempotency | None = None
) -> Launched:
    """Accept a run, at most one per idempotency key, which is stored with it.

    Raise, in this order: IdempotencyKeyReused, SuiteNotFound, ProfileNotInSuite, ProfileInvalid,
    TopologyInvalid, BackendUnknown, BackendUnavailable, QueueFull; NotAvailable for keep-alive.
    Nothing is stored unless all checks pass. The dispatch task is sent after the commit by another
    thread: a broker that does not respond neither blocks nor fails a launch.
    """
    if earlier := replayed(idempotency):
        return earlier
    accepted = _checked(principal, request)
    try:
        _, answer = store_run(accepted, idempotency)
    except IntegrityError:
        # another request with this key was first: its response is ours too
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
    """Return the run's key and Summary; raise QueueFull, or IntegrityError if the key is taken."""
    queued = Execution.objects.filter(status=ExecutionStatus.QUEUED.value, deleted_at=None)
    if queued.count() >= conf.max_queued():
        raise QueueFull(f"{conf.max_queued()} runs are queued; try again later")
    execution = _execution(accepted)
    execution.save(force_insert=True)
    Step.objects.bulk_create(_steps(execution, accepted))
    open_topics([events_topic(execution.run_id), logs_topic(execution.run_id)])
    run = load_run(execution.pk)
    assert run is not None, "stored above"
    run.emit_run_event("queued", f"accepted: {accepted.suite.title} on {accepted.backend.label}")
    if printed := accepted.suite.print_lines:
        lines = [LogLine(run.now, "info", "system", text) for text in printed]
        run.append_log(RUN_SOURCE, lines)
    save_runs([run])
    answer = summary(run.execution, now=run.now)
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


def packed_suite(suite: ResolvedSuite, profile: LaunchProfile) -> PackedSuite:
    """Pack a suite and a profile; equal ones give equal bytes."""
    archive = tar_gz(suite.files) if suite.files else b""
    sha256 = hashlib.sha256(archive).hexdigest()
    contents = {suite.id: {"digest": f"sha256:{sha256}", "size": len(archive)}} if archive else {}
    document = json.dumps(
        {
            "suite": _without_file_contents(suite),
            "profile": _profile_document(profile),
            "contents": contents,
        },
        sort_keys=True,
        separators=(",", ":"),
    ).encode()
    return PackedSuite(
        digest=f"sha256:{hashlib.sha256(document).hexdigest()}",
        document=zlib.compress(document),
        archive=archive,
        archive_sha256=sha256,
    )


def store_snapshot(packed: PackedSuite) -> Snapshot:
    """Store a snapshot within the caller's unit of work, or return the row of an equal one."""
    if packed.archive:
        store_blob(packed.archive_sha256, packed.archive)
    snapshot, _ = Snapshot.objects.get_or_create(
        digest=packed.digest,
        defaults={"id": new_uuid(), "document": packed.document, "created_at": clock.now()},
    )
    return snapshot


def tar_gz(files: Mapping[str, bytes]) -> bytes:
    """Return an archive, sorted, without times and owners; scripts are executable for everyone."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(files):
            entry = tarfile.TarInfo(path)
            entry.size = len(files[path])
            entry.mode = 0o755 if files[path].startswith(b"#!") else 0o644
            archive.addfile(entry, io.BytesIO(files[path]))
    return gzip.compress(buffer.getvalue(), mtime=0)


def _without_file_contents(suite: ResolvedSuite) -> dict[str, Any]:
    sources = [
        {key: value for key, value in source.items() if key != "content"}
        for source in suite.definition.get("sourceFiles", ())
    ]
    return {**suite.definition, "sourceFiles": sources, "topology": list(suite.topology)}


def _profile_document(profile: LaunchProfile) -> dict[str, Any]:
    return {
        "fileName": profile.file_name,
        "label": profile.label,
        "env": dict(profile.env),
        "services": {step: dict(env) for step, env in profile.services.items()},
        "secretRefs": [asdict(reference) for reference in profile.secret_refs],
        "observability": dict(profile.observability),
    }


def replayed(idempotency: Idempotency | None) -> Launched | None:
    """Return the stored response; raise IdempotencyKeyReused if the body is another one."""
    if idempotency is None:
        return None
    since = clock.now() - IDEMPOTENCY_KEYS_KEPT
    row = IdempotencyKey.objects.filter(scope=_scope(idempotency), created_at__gt=since).first()
    if row is None:
        return None
    if row.body_sha256 != _sha256(idempotency.body):
        raise IdempotencyKeyReused("this Idempotency-Key was used with another request body")
    return Launched(summary=row.answer, replayed=True)


def remember(idempotency: Idempotency, run_id: str, answer: dict[str, Any]) -> None:
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
