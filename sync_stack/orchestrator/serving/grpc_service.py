"""The gRPC edge: translate, call the use case, translate back (contract 3)."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from django.db import Error as StoreError
from django.db import close_old_connections
from google.protobuf.timestamp_pb2 import Timestamp

from sync_stack.core.bundle.model import Bundle
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.rows import tasks
from sync_stack.orchestrator.services.accept import Delivery, Refused, accept_delivery
from sync_stack.orchestrator.services.create import Created, TooManyTasks
from sync_stack.orchestrator.services.trigger import Heal, trigger_heal
from sync_stack.orchestrator.serving.grpc_trace import traced
from sync_stack.orchestrator.serving.metrics import Metrics
from sync_stack.orchestrator.serving.task_message import state_of, task_message
from sync_stack.rpc.gen.partita.sync.v1 import orchestrator_pb2 as pb
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2_grpc import OrchestratorServicer

log: Final = logging.getLogger(__name__)
T = TypeVar("T")
MAY_CALL: Final = {  # with mutual TLS: identity → methods
    "gateway": frozenset({"ProcessWebhook", "Ping"}),
    "watcher": frozenset({"TriggerSync", "GetTask", "Ping"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """`identities`: whether callers show certificates."""

    token: str = ""
    identities: bool = False
    version: str = ""


@dataclass(kw_only=True)
class Orchestrator(OrchestratorServicer):
    """`ready` says what the store and the other parts say; calls run on threads of their own."""

    bundle: Callable[[], Bundle]
    publish: Callable[[Sequence[str]], None]
    ready: Callable[[], tuple[bool, str]]
    settings: ServiceSettings
    metrics: Metrics
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(8, thread_name_prefix="grpc-store")
    )

    async def ProcessWebhook(self, request: Any, context: Any) -> Any:  # noqa: N802
        bundle, outcome = self.bundle(), "error"
        try:
            with traced("ProcessWebhook", context) as traceparent:
                delivery = _delivery(request, traceparent)
                created = await self._call(
                    "ProcessWebhook",
                    context,
                    lambda: accept_delivery(delivery, bundle, self.publish),
                )
            outcome = "ok"
        finally:
            self.metrics.webhook(bundle, request.datasource, request.platform, outcome)
        return _response(pb.ProcessWebhookResponse, created)

    async def TriggerSync(self, request: Any, context: Any) -> Any:  # noqa: N802
        with traced("TriggerSync", context) as traceparent:
            heal = _heal(request, traceparent)
            created = await self._call(
                "TriggerSync", context, lambda: trigger_heal(heal, self.bundle(), self.publish)
            )
        return _response(pb.TriggerSyncResponse, created)

    async def GetTask(self, request: Any, context: Any) -> Any:  # noqa: N802
        return task_message(
            await self._call("GetTask", context, lambda: _known_task(request.task_id))
        )

    async def Ping(self, _request: Any, context: Any) -> Any:  # noqa: N802
        ready, detail = await self._call("Ping", context, self.ready)
        now = Timestamp()
        now.GetCurrentTime()
        return pb.PingResponse(version=self.settings.version, ready=ready, detail=detail, time=now)

    async def _call(self, method: str, context: Any, act: Callable[[], T]) -> T:
        """Authorize, run on a thread, and turn facts into status codes."""
        with self.metrics.grpc_call(method) as call:
            await self._authorize(method, context, call)
            try:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self.threads, _in_store, act)
            except Refused as refusal:
                await call.abort(context, refusal.status, refusal.detail)
            except TooManyTasks:
                await call.abort(context, "RESOURCE_EXHAUSTED", "too many tasks wait")
            except StoreError as error:
                log.warning("%s: the store failed: %s", method, type(error).__name__)
                await call.abort(context, "UNAVAILABLE", "the store cannot be used")
            raise AssertionError("abort raises")

    async def _authorize(self, method: str, context: Any, call: Any) -> None:
        if self.settings.token and not _has_token(context, self.settings.token):
            await call.abort(context, "UNAUTHENTICATED", "a bearer token is required")
        if self.settings.identities and not _may_call(context, method):
            await call.abort(context, "PERMISSION_DENIED", f"this identity may not {method}")


def _delivery(request: Any, traceparent: str) -> Delivery:
    return Delivery(
        platform=request.platform,
        datasource=request.datasource,
        raw_payload=request.raw_payload,
        event=request.event,
        idempotency_key=request.idempotency_key,
        delivery_id=request.delivery_id,
        correlation_id=request.correlation_id,
        signature_verified=request.signature_verified,
        traceparent=traceparent,
    )


def _heal(request: Any, traceparent: str) -> Heal:
    return Heal(
        rule=request.rule_id,
        repo=request.repo,
        env=request.env,
        destination_id=request.destination_id,
        idempotency_key=request.idempotency_key,
        generation=request.generation,
        drift_id=request.delivery_id,
        correlation_id=request.correlation_id,
        traceparent=traceparent,
    )


def _in_store(act: Callable[[], T]) -> T:
    close_old_connections()
    return act()


def _response(kind: Any, created: Created) -> Any:
    return kind(
        task_id=created.task.id,
        message=created.task.message,
        state=state_of(created.task),
        duplicate=created.duplicate,
    )


def _known_task(task_id: str) -> Task:
    task = tasks.get(task_id)
    if task is None:
        raise Refused("NOT_FOUND", f"no task {task_id[:64]!r}")
    return task


def _has_token(context: Any, token: str) -> bool:
    given = dict(context.invocation_metadata() or ()).get("authorization", "")
    return hmac.compare_digest(str(given).encode(), f"Bearer {token}".encode())


def _may_call(context: Any, method: str) -> bool:
    names = context.auth_context().get("x509_subject_alternative_name", ())
    return any(method in MAY_CALL.get(name.decode(), ()) for name in names)
