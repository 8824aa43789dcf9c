"""The gRPC edge: translate, call the use case, translate back (reference: sync-stack 3)."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import grpc
import grpc.aio
from django.db import Error as StoreError
from django.db import close_old_connections
from google.protobuf.timestamp_pb2 import Timestamp

from sync_stack.core.bundle.model import Bundle
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.selectors import tasks
from sync_stack.orchestrator.server.grpc_messages import (
    CallSpan,
    state_of,
    task_message,
    trace_call,
)
from sync_stack.orchestrator.server.metrics import OrchestratorMetrics
from sync_stack.orchestrator.services.deliveries import (
    DeliveryRefused,
    WebhookDelivery,
    accept_deliveries,
    accept_delivery,
)
from sync_stack.orchestrator.services.task_creation import Created, TooManyTasks
from sync_stack.orchestrator.services.triggers import Heal, trigger_heal
from sync_stack.rpc.channel import MAX_BATCH, MAX_BATCH_BYTES
from sync_stack.rpc.gen.partita.sync.v1 import orchestrator_pb2 as pb
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2_grpc import OrchestratorServicer

log: Final = logging.getLogger(__name__)
T = TypeVar("T")
MAX_STREAMS: Final = 64  # of webhooks, at once; a gateway has one
_LAST_BATCHES_S: Final = 5.0  # for a gateway to end its stream after `draining`
MAY_CALL: Final = {  # with mutual TLS: identity → methods
    "gateway": frozenset({"ProcessWebhook", "ProcessWebhooks", "Ping"}),
    "watcher": frozenset({"TriggerSync", "GetTask", "Ping"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """`identities`: callers present certificates."""

    token: str = ""
    identities: bool = False
    version: str = ""


@dataclass(kw_only=True)
class Orchestrator(OrchestratorServicer):
    """The gRPC service; its calls run on threads. `ready` returns readiness and details."""

    bundle: Callable[[], Bundle]
    publish: Callable[[Sequence[str]], None]
    ready: Callable[[], tuple[bool, str]]
    settings: ServiceSettings
    metrics: OrchestratorMetrics
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(8, thread_name_prefix="grpc-store")
    )
    _draining: asyncio.Event = field(default_factory=asyncio.Event)
    _streams: int = 0

    async def ProcessWebhook(self, request: Any, context: Any) -> Any:  # noqa: N802
        bundle, outcome = self.bundle(), "error"
        try:
            with trace_call("ProcessWebhook", context) as traceparent:
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

    async def ProcessWebhooks(self, _requests: Any, context: Any) -> None:  # noqa: N802
        """Store batch after batch until the gateway ends the stream."""
        method = "ProcessWebhooks"
        with self.metrics.grpc_call(method, stream=True) as call:
            await self._authorize(method, context, call)
            if self._streams >= MAX_STREAMS:
                await call.abort(context, "RESOURCE_EXHAUSTED", f"{MAX_STREAMS} streams are open")
            self._streams += 1
            batches = _Batches(context, self._draining)
            try:
                while (batch := await batches.next()) is not grpc.aio.EOF:
                    if len(batch.webhooks) > MAX_BATCH or batch.ByteSize() > MAX_BATCH_BYTES:
                        bound = f"{MAX_BATCH} deliveries and {MAX_BATCH_BYTES} bytes"
                        detail = f"a batch holds at most {bound}"
                        await call.abort(context, "INVALID_ARGUMENT", detail)
                    await context.write(await self._store(batch))
            finally:
                self._streams -= 1
                batches.close()

    def drain(self) -> None:
        """Ask gateways to end their streams; what they have sent is still stored."""
        self._draining.set()

    async def _store(self, batch: Any) -> Any:
        """Store the deliveries of a batch in one transaction; return the result of each."""
        bundle, begun = self.bundle(), time.perf_counter()
        spans = [CallSpan("ProcessWebhooks", each.traceparent) for each in batch.webhooks]
        deliveries = [
            _delivery(each.request, span.traceparent)
            for each, span in zip(batch.webhooks, spans, strict=True)
        ]
        results: Sequence[Created | DeliveryRefused]
        try:
            results = await self._in_thread(
                lambda: accept_deliveries(deliveries, bundle, self.publish)
            )
        except StoreError as error:
            log.warning("ProcessWebhooks: the store failed: %s", type(error).__name__)
            results = [DeliveryRefused("UNAVAILABLE", "the store cannot be used")] * len(deliveries)
        seconds = time.perf_counter() - begun
        for delivery, result, span in zip(deliveries, results, spans, strict=True):
            status, refused = (
                ("OK", False) if isinstance(result, Created) else (result.status, True)
            )
            self.metrics.record_grpc_call("ProcessWebhooks", status, seconds)
            outcome = "error" if refused else "ok"
            self.metrics.webhook(bundle, delivery.datasource, delivery.platform, outcome)
            span.end(error="error" if refused else "")
        return _batch_result(deliveries, results)

    async def TriggerSync(self, request: Any, context: Any) -> Any:  # noqa: N802
        with trace_call("TriggerSync", context) as traceparent:
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
        """Authorize a call, run it on a thread, and map its errors to status codes."""
        with self.metrics.grpc_call(method) as call:
            await self._authorize(method, context, call)
            try:
                return await self._in_thread(act)
            except DeliveryRefused as refusal:
                await call.abort(context, refusal.status, refusal.detail)
            except TooManyTasks:
                await call.abort(context, "RESOURCE_EXHAUSTED", "too many tasks are waiting")
            except StoreError as error:
                log.warning("%s: the store failed: %s", method, type(error).__name__)
                await call.abort(context, "UNAVAILABLE", "the store cannot be used")
            raise AssertionError("abort raises")

    async def _in_thread(self, act: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.threads, _in_store, act)

    async def _authorize(self, method: str, context: Any, call: Any) -> None:
        if self.settings.token:
            given = dict(context.invocation_metadata() or ()).get("authorization", "")
            expected = f"Bearer {self.settings.token}"
            if not hmac.compare_digest(str(given).encode(), expected.encode()):
                await call.abort(context, "UNAUTHENTICATED", "a bearer token is required")
        if self.settings.identities:
            names = context.auth_context().get("x509_subject_alternative_name", ())
            if not any(method in MAY_CALL.get(name.decode(), ()) for name in names):
                detail = f"this identity may not call {method}"
                await call.abort(context, "PERMISSION_DENIED", detail)


class _Batches:
    """The batches of one stream; once this process stops, for 5 s at most."""

    def __init__(self, context: Any, draining: asyncio.Event) -> None:
        self._context = context
        self._stopping = asyncio.ensure_future(draining.wait())
        self._notified = False

    async def next(self) -> Any:
        """Return the next batch, or EOF."""
        reading = asyncio.ensure_future(self._context.read())
        try:
            if not self._notified:
                await asyncio.wait({self._stopping, reading}, return_when=asyncio.FIRST_COMPLETED)
            if self._stopping.done() and not self._notified:
                self._notified = True
                await self._context.write(pb.ProcessWebhookBatchResult(draining=True))
            return await asyncio.wait_for(reading, _LAST_BATCHES_S if self._notified else None)
        except TimeoutError:
            log.info("a gateway did not end its stream", extra={"event": "stream_cut_off"})
            return grpc.aio.EOF
        finally:
            reading.cancel()

    def close(self) -> None:
        self._stopping.cancel()


def _delivery(request: Any, traceparent: str) -> WebhookDelivery:
    return WebhookDelivery(
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
        datasource=request.datasource,
        platform=request.platform,
        rule=request.rule_id,
        repo=request.repo,
        env=request.env,
        destination_id=request.destination_id,
        idempotency_key=request.idempotency_key,
        ref=request.ref,
        commit=request.commit,
        generation=request.generation,
        drift_id=request.delivery_id,
        correlation_id=request.correlation_id,
        traceparent=traceparent,
    )


def _in_store(act: Callable[[], T]) -> T:
    close_old_connections()
    return act()


def _batch_result(
    deliveries: Sequence[WebhookDelivery], results: Sequence[Created | DeliveryRefused]
) -> Any:
    made = pb.ProcessWebhookBatchResult()
    for delivery, result in zip(deliveries, results, strict=True):
        item = made.results.add(idempotency_key=delivery.idempotency_key)
        if isinstance(result, DeliveryRefused):
            item.code = grpc.StatusCode[result.status].value[0]
            item.detail = result.detail
        else:
            item.response.CopyFrom(_response(pb.ProcessWebhookResponse, result))
    return made


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
        raise DeliveryRefused("NOT_FOUND", f"no task {task_id[:64]!r}")
    return task
