"""Calls of the orchestrator behind the breaker (reference: sync-stack 2.2, steps 14 and 15)."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable
from typing import Any, Final

import grpc
import grpc.aio
import msgspec

from sync_stack.core.headers import Headers
from sync_stack.core.replay import Delivery
from sync_stack.gateway.breaker import Breaker, Permit
from sync_stack.gateway.metrics import GatewayMetrics
from sync_stack.gateway.responses import Code, Refusal
from sync_stack.gateway.webhook_stream import CallFailed, StreamUnknown, WebhookStreams
from sync_stack.rpc.channel import OrchestratorChannel, call_metadata
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2 import ProcessWebhookRequest

FORWARDED_HEADERS: Final = (
    "x-gitlab-instance",
    "x-github-hook-id",
    "x-hook-uuid",
    "x-attempt-number",
    "user-agent",
)
_UNARY: Final = "ProcessWebhook"
_STREAM: Final = "ProcessWebhooks"
_BUSY_RETRY_S: Final = 5
_REPEAT_PAUSES_S: Final = (0.1, 0.2, 0.4, 0.6, 0.8)  # an orchestrator restarts within 2 s
_MAX_DETAIL: Final = 300
_OUTAGE_CODES: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)


class Outbound(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery to forward: the serialized ProcessWebhookRequest and its ids."""

    message: bytes
    idempotency_key: str
    correlation_id: str
    traceparent: str = ""


class DeliveryContext(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a delivery that are not in its body."""

    headers: Headers
    header_names: tuple[str, ...]  # of event and delivery id
    received_ns: int  # since 1970
    correlation_id: str
    traceparent: str
    signature_verified: bool


def outbound(delivery: Delivery, context: DeliveryContext) -> Outbound:
    digest = hashlib.sha256(delivery.body).hexdigest()
    seconds, nanos = divmod(context.received_ns, 10**9)
    key = delivery.idempotency_key(digest)
    request = ProcessWebhookRequest(
        platform=delivery.platform,
        datasource=delivery.segment,
        raw_payload=delivery.body,
        event=delivery.event,
        delivery_id=delivery.delivery_id,
        idempotency_key=key,
        correlation_id=context.correlation_id,
        payload_sha256=digest,
        signature_verified=context.signature_verified,
    )
    # protobuf fills a map and a message that are given as dicts in slow Python code.
    request.received_at.seconds, request.received_at.nanos = seconds, nanos
    headers = request.headers
    for name, value in context.headers.only(*context.header_names, *FORWARDED_HEADERS).items():
        headers[name] = value
    return Outbound(
        message=request.SerializeToString(),
        idempotency_key=key,
        correlation_id=context.correlation_id,
        traceparent=context.traceparent,
    )


class Forwarder:
    """Sends deliveries to the orchestrator, over a stream or one by one."""

    def __init__(
        self,
        channel: OrchestratorChannel,
        breaker: Breaker,
        metrics: GatewayMetrics,
        *,
        token: str = "",
    ) -> None:
        self.breaker = breaker
        self._channel = channel
        self._streams = WebhookStreams(channel, token=token)
        self._metrics = metrics
        self._token = token

    async def close(self) -> None:
        await self._streams.close()

    async def forward(self, sent: Outbound, *, timeout_s: float) -> str:
        """Return the id of the stored task. Raises Refusal."""
        permit = self.breaker.admit()
        if not isinstance(permit, Permit):
            raise Refusal(
                Code.ORCHESTRATOR_UNAVAILABLE,
                "the orchestrator is not responding; try again later",
                retry_after_s=permit,
            )
        try:
            response = await self._call_patiently(sent, time.monotonic() + timeout_s)
        except CallFailed as error:
            self._record_result(permit, error.code)
            raise refusal_for(error.code, error.details) from None
        except asyncio.CancelledError:
            self.breaker.release(permit)
            raise
        self.breaker.record_success(permit)
        return str(response.task_id)

    async def _call_patiently(self, sent: Outbound, until: float) -> Any:
        """Call, and for 2 s again while the orchestrator cannot be reached. Raises CallFailed.

        Hosts such as GitHub deliver once. A delivery that arrives twice is one task, by its key.
        """
        for pause_s in _REPEAT_PAUSES_S:
            try:
                return await self._call(sent, until - time.monotonic())
            except CallFailed as error:
                is_unreachable = error.code is grpc.StatusCode.UNAVAILABLE
                if not is_unreachable or time.monotonic() + pause_s >= until:
                    raise
            await asyncio.sleep(pause_s)
        return await self._call(sent, until - time.monotonic())

    async def _call(self, sent: Outbound, timeout_s: float) -> Any:
        """Return the ProcessWebhookResponse. Raises CallFailed."""
        if self._streams.takes(len(sent.message)):
            started = time.monotonic()
            call = self._streams.call(
                sent.idempotency_key, sent.message, sent.traceparent, timeout_s
            )
            try:
                return await self._measure(_STREAM, call)
            except StreamUnknown:
                timeout_s = max(0.0, timeout_s - (time.monotonic() - started))
        return await self._measure(_UNARY, self._call_unary(sent, timeout_s))

    async def _call_unary(self, sent: Outbound, timeout_s: float) -> Any:
        """Make a unary call: for large deliveries, and for all while the stream is unsupported."""
        metadata = call_metadata(
            correlation_id=sent.correlation_id, traceparent=sent.traceparent, token=self._token
        )
        try:
            return await self._channel.process_webhook(
                sent.message, timeout=timeout_s, metadata=metadata
            )
        except grpc.aio.AioRpcError as error:
            raise CallFailed(error.code(), error.details() or "") from None

    async def _measure(self, method: str, call: Awaitable[Any]) -> Any:
        started = time.monotonic()
        status = "CANCELLED"
        try:
            response = await call
            status = "OK"
        except CallFailed as error:
            status = error.code.name
            raise
        except StreamUnknown:
            status = grpc.StatusCode.UNIMPLEMENTED.name
            raise
        finally:
            self._metrics.calls.inc(method, status)
            self._metrics.call_durations.observe(time.monotonic() - started, method)
        return response

    def _record_result(self, permit: Permit, code: grpc.StatusCode) -> None:
        """Tell the breaker: only outage codes count as failures of the orchestrator."""
        if code in _OUTAGE_CODES:
            self.breaker.record_failure(permit)
        elif code is grpc.StatusCode.CANCELLED:  # by this process, with a replaced channel
            self.breaker.release(permit)
        else:
            self.breaker.record_success(permit)


def refusal_for(code: grpc.StatusCode, details: str) -> Refusal:
    """Return the refusal for a failed call (reference: sync-stack 2.4)."""
    detail = details[:_MAX_DETAIL]
    if code is grpc.StatusCode.NOT_FOUND:
        return Refusal(Code.DATASOURCE_NOT_FOUND, detail or "no rule uses this datasource")
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        return Refusal(Code.PAYLOAD_VALIDATION, detail or "the payload cannot be read as an event")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return Refusal(
            Code.ORCHESTRATOR_ERROR,
            "the orchestrator has too many tasks waiting",
            retry_after_s=_BUSY_RETRY_S,
        )
    return Refusal(Code.ORCHESTRATOR_ERROR, f"the orchestrator rejected the delivery: {code.name}")
