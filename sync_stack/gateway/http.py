"""The ASGI application of a listener: routes, rate limits, responses, metrics and access logs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from datetime import timedelta
from http import HTTPStatus
from typing import Final

import msgspec

from kernel import telemetry
from kernel.clock import now
from kernel.telemetry import FinishedSpan
from kernel.trace_context import parse_traceparent
from sync_stack.configuration.logs import log_context
from sync_stack.gateway.delivery_checks import DeliveryLabels, DeliveryOutcome, DeliveryPipeline
from sync_stack.gateway.metrics import CONTENT_TYPE, METHODS, OTHER, GatewayMetrics, one_of
from sync_stack.gateway.rate_limits import Limited, RateLimiter
from sync_stack.gateway.requests import WebhookRequest, rate_limit_refusal
from sync_stack.gateway.responses import Code, GatewayResponse, Refusal
from sync_stack.gateway.routes import SCHEMA_REGISTRY, CompiledBundle
from sync_stack.rpc.http_thread import Receive, Scope, Send
from sync_stack.rpc.readiness import Health

log: Final = logging.getLogger("partita.sync.gateway.access")

LIVENESS: Final = "/health/liveness"
READINESS: Final = "/health/readiness"
METRICS: Final = "/metrics"
WEBHOOKS: Final = "/webhooks/"
_OPERATIONAL: Final = frozenset({LIVENESS, READINESS, METRICS})  # polled, so not traced
_DRAIN_S: Final = 2.0
_DRAIN_BYTES: Final = 64 * 2**20
_MAX_DISCARDED: Final = 64 * 2**10  # a smaller unread body does not cost the connection
_SECURITY_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store, no-cache, must-revalidate"),
    (b"expires", b"0"),
    (b"pragma", b"no-cache"),
)


class RequestRecord(msgspec.Struct, kw_only=True):
    """The facts of one request for its metrics, response headers and log lines."""

    request: WebhookRequest
    route: str = OTHER
    headers: tuple[tuple[bytes, bytes], ...] = ()
    labels: DeliveryLabels | None = None
    started: float = msgspec.field(default_factory=time.monotonic)


class GatewayApplication:
    """Serve one listener: `admin` serves metrics and details, the other one takes webhooks."""

    def __init__(
        self,
        *,
        pipeline: DeliveryPipeline,
        compiled: Callable[[], CompiledBundle],
        limiter: RateLimiter,
        health: Health,
        metrics: GatewayMetrics,
        admin: bool,
    ) -> None:
        self._pipeline = pipeline
        self._compiled = compiled
        self._limiter = limiter
        self._health = health
        self._metrics = metrics
        self._admin = admin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = RequestRecord(request=WebhookRequest(scope, receive))
        request = record.request
        with log_context(correlation_id=request.correlation_id, request_id=request.request_id):
            outcome = await self._handle(record)
            delivered = not request.is_gone()
            try:
                await self._send(record, outcome.response, send)
            finally:
                request.release()
                await self._pipeline.finish(outcome, delivered=delivered)
            self._observe(record, outcome.response)

    async def _handle(self, record: RequestRecord) -> DeliveryOutcome:
        try:
            return await self._dispatch(record)
        except Refusal as refusal:
            return DeliveryOutcome(response=refusal.response)
        except Exception:  # the edge: the sender learns nothing about the error
            log.exception("a request failed", extra={"event": "internal_error"})
            return DeliveryOutcome(response=Refusal(Code.INTERNAL, "the gateway failed").response)

    async def _dispatch(self, record: RequestRecord) -> DeliveryOutcome:
        request = record.request
        if request.path in {LIVENESS, READINESS} or (self._admin and request.path == METRICS):
            record.route = request.path
            return DeliveryOutcome(response=self._operational_response(request))
        if self._admin:
            raise _not_found()
        compiled = self._compiled()
        segment = request.path.removeprefix(WEBHOOKS)
        is_webhook = request.path.startswith(WEBHOOKS) and bool(segment) and "/" not in segment
        if is_webhook:
            named = segment == SCHEMA_REGISTRY
            record.route = request.path if named else "/webhooks/{datasource}"
        self._admit(record, compiled, segment if is_webhook else "")
        if not is_webhook:
            raise _not_found()
        _require_method(request, "POST")
        record.labels = DeliveryLabels()
        return await self._pipeline.handle(request, compiled, segment, record.labels)

    def _operational_response(self, request: WebhookRequest) -> GatewayResponse:
        _require_method(request, "GET", "HEAD")
        if request.path == LIVENESS:
            return GatewayResponse(status=200, body=b"OK", outcome="ok", content_type=b"text/plain")
        if request.path == METRICS:
            body = self._metrics.text()
            return GatewayResponse(status=200, body=body, outcome="ok", content_type=CONTENT_TYPE)
        ready, detail = self._health.probe()
        members = {"status": "READY" if ready else "NOT_READY"}
        if self._admin and detail:
            members["detail"] = detail
        body = msgspec.json.encode(members)
        if ready:
            return GatewayResponse(status=200, body=body, outcome="ok")
        retry = ((b"retry-after", b"2"),)
        return GatewayResponse(status=503, body=body, outcome="not_ready", headers=retry)

    def _admit(self, record: RequestRecord, compiled: CompiledBundle, segment: str) -> None:
        """Take a token of the sender; raise Refusal when a rate limit is reached."""
        request = record.request
        forwarded = request.headers.all("x-forwarded-for")
        request.sender = compiled.client_addresses.key(request.peer, forwarded)
        key = one_of(compiled.routes, segment)
        admission = self._limiter.admit(request.sender, key)
        if isinstance(admission, Limited):
            self._metrics.rate_limit_hits.inc(admission.scope)
            raise rate_limit_refusal(admission.scope, admission.retry_after_s, "too many requests")
        if admission.limit:
            record.headers = (
                (b"x-ratelimit-limit", b"%d" % admission.limit),
                (b"x-ratelimit-remaining", b"%d" % admission.remaining),
                (b"x-ratelimit-scope", b"ip"),
                (b"x-ratelimit-key", f"{request.sender}:{key}".encode("latin-1", "replace")),
            )

    async def _send(self, record: RequestRecord, response: GatewayResponse, send: Send) -> None:
        request = record.request
        unread = request.has_body and not request.body_complete
        closes = unread and not 0 < (request.declared_length or 0) <= _MAX_DISCARDED
        headers = [
            *_SECURITY_HEADERS,
            (b"content-type", response.content_type),
            (b"content-length", b"%d" % len(response.body)),
            (b"x-request-id", request.request_id.encode()),
            (b"x-correlation-id", request.correlation_id.encode()),
            *record.headers,
            *response.headers,
        ]
        if closes:
            headers.append((b"connection", b"close"))
        elif request.write_response(response.status, headers, response.body):
            return
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        if closes and "expect" not in request.headers:
            await send({"type": "http.response.body", "body": response.body, "more_body": True})
            await _drain_body(request)
            await send({"type": "http.response.body", "body": b""})
        else:
            await send({"type": "http.response.body", "body": response.body})

    def _observe(self, record: RequestRecord, response: GatewayResponse) -> None:
        """Count, log and trace a request that was answered."""
        request, route = record.request, record.route
        elapsed_s = time.monotonic() - record.started
        method = one_of(METHODS, request.method)
        self._metrics.requests.inc(method, route, str(response.status))
        self._metrics.durations.observe(elapsed_s, method, route)
        if labels := record.labels:
            self._metrics.webhooks.inc(
                labels.datasource, labels.platform, labels.event_type, response.outcome
            )
        _log(record, response, elapsed_s)
        if telemetry.is_configured() and route not in _OPERATIONAL:
            _trace(record, response, elapsed_s)


def _require_method(request: WebhookRequest, *methods: str) -> None:
    if request.method not in methods:
        allowed = ", ".join(methods)
        raise Refusal(
            Code.METHOD_NOT_ALLOWED,
            f"this path accepts only {allowed}",
            headers=((b"allow", allowed.encode()),),
        )


def _not_found() -> Refusal:
    return Refusal(Code.NOT_FOUND, "the path does not exist")


async def _drain_body(request: WebhookRequest) -> None:
    """Read the rest of a body: a sender whose connection closes early may lose the response."""
    received = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            while received < _DRAIN_BYTES:
                message = await request.receive()
                received += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def _log(record: RequestRecord, response: GatewayResponse, elapsed_s: float) -> None:
    level = logging.DEBUG
    if record.route != READINESS and response.status >= HTTPStatus.BAD_REQUEST:
        failed = response.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        level = logging.ERROR if failed else logging.WARNING
    if not log.isEnabledFor(level):
        return
    request = record.request
    log.log(
        level,
        "%s %s %d",
        request.method,
        record.route,
        response.status,
        extra={
            "event": "access",
            "method": request.method,
            "path": request.path[:200],
            "status": response.status,
            "outcome": response.outcome,
            "sender": request.sender or request.peer,
            "duration_ms": round(elapsed_s * 1000, 3),
        },
    )


def _trace(record: RequestRecord, response: GatewayResponse, elapsed_s: float) -> None:
    ended = now()
    span = parse_traceparent(record.request.traceparent)
    if span is None:  # only random ids that are all zeros, which the format forbids
        return
    failed = response.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    telemetry.record(
        FinishedSpan(
            name=f"{record.request.method} {record.route}",
            context=span,
            parent_id=record.request.parent_span_id,
            started_at=ended - timedelta(seconds=elapsed_s),
            ended_at=ended,
            attributes={"http.route": record.route, "http.status_code": response.status},
            error=response.outcome if failed else "",
        )
    )
