"""The ASGI application of both listeners: routes, ids, limits, the answer and its log line."""

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
from sync_stack.configuration.logs import about
from sync_stack.gateway.answers import Answer, Code, Refusal
from sync_stack.gateway.deliveries import DeliveryPipeline, Labels, Outcome
from sync_stack.gateway.metrics import CONTENT_TYPE, METHODS, OTHER, Metrics, one_of
from sync_stack.gateway.rate_limits import Admission, Limited, RateLimiter
from sync_stack.gateway.requests import Receive, Request, Scope, Send, rate_limited
from sync_stack.gateway.routes import SCHEMA_REGISTRY, CompiledBundle
from sync_stack.rpc.readiness import Health

log: Final = logging.getLogger("partita.sync.gateway.access")

LIVENESS: Final = "/health/liveness"
READINESS: Final = "/health/readiness"
METRICS: Final = "/metrics"
WEBHOOKS: Final = "/webhooks/"
_OPERATIONAL: Final = frozenset({LIVENESS, READINESS, METRICS})  # asked for all the time
_LINGER_S: Final = 2.0
_LINGER_BYTES: Final = 64 * 2**20
_DISCARDED: Final = 64 * 2**10  # an unread body up to this size does not cost the connection
_FIXED: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store, no-cache, must-revalidate"),
    (b"expires", b"0"),
    (b"pragma", b"no-cache"),
)


class RequestRecord(msgspec.Struct, kw_only=True):
    """A request on its way: what metrics, headers and log lines say of it."""

    request: Request
    route: str = OTHER
    headers: tuple[tuple[bytes, bytes], ...] = ()
    labels: Labels | None = None
    started: float = msgspec.field(default_factory=time.monotonic)


class App:
    """Of one listener; `admin` has the metrics and details, the other takes webhooks."""

    def __init__(
        self,
        *,
        gate: DeliveryPipeline,
        generation: Callable[[], CompiledBundle],
        limiter: RateLimiter,
        health: Health,
        metrics: Metrics,
        admin: bool,
    ) -> None:
        self._gate = gate
        self._generation = generation
        self._limiter = limiter
        self._health = health
        self._metrics = metrics
        self._admin = admin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = RequestRecord(request=Request(scope, receive))
        request = exchange.request
        with about(correlation_id=request.correlation_id, request_id=request.request_id):
            outcome = await self._outcome(exchange)
            delivered = not request.is_gone()
            try:
                await self._send(exchange, outcome.answer, send)
            finally:
                request.release()
                await self._gate.settle(outcome, delivered=delivered)
            self._account(exchange, outcome.answer)

    async def _outcome(self, exchange: RequestRecord) -> Outcome:
        try:
            return await self._dispatch(exchange)
        except Refusal as refusal:
            return Outcome(answer=refusal.answer)
        except Exception:  # the edge: nothing of what went wrong may reach the sender
            log.exception("a request failed", extra={"event": "internal_error"})
            return Outcome(answer=Refusal(Code.INTERNAL, "the gateway failed").answer)

    async def _dispatch(self, exchange: RequestRecord) -> Outcome:
        request = exchange.request
        if request.path in {LIVENESS, READINESS} or (self._admin and request.path == METRICS):
            exchange.route = request.path
            return Outcome(answer=self._operational(request))
        if self._admin:
            raise _not_found()
        generation = self._generation()
        segment = _segment(request.path)
        if segment is not None:
            named = segment == SCHEMA_REGISTRY
            exchange.route = request.path if named else "/webhooks/{datasource}"
        self._admit(exchange, generation, segment or "")
        if segment is None:
            raise _not_found()
        _only(request, "POST")
        exchange.labels = Labels()
        return await self._gate.handle(request, generation, segment, exchange.labels)

    def _operational(self, request: Request) -> Answer:
        _only(request, "GET", "HEAD")
        if request.path == LIVENESS:
            return Answer(status=200, body=b"OK", outcome="ok", content_type=b"text/plain")
        if request.path == METRICS:
            body = self._metrics.text()
            return Answer(status=200, body=body, outcome="ok", content_type=CONTENT_TYPE)
        ready, detail = self._health.probed()
        said = {"status": "READY" if ready else "NOT_READY"}
        if self._admin and detail:
            said["detail"] = detail
        status, word = (200, "ok") if ready else (503, "not_ready")
        retry = () if ready else ((b"retry-after", b"2"),)
        return Answer(status=status, body=msgspec.json.encode(said), outcome=word, headers=retry)

    def _admit(self, exchange: RequestRecord, generation: CompiledBundle, segment: str) -> None:
        request = exchange.request
        forwarded = request.headers.all("x-forwarded-for")
        request.sender = generation.senders.key(request.peer, forwarded)
        key = one_of(generation.routes, segment)
        admission = self._limiter.admit(request.sender, key)
        if isinstance(admission, Limited):
            self._metrics.rate_limit_hits.inc(admission.scope)
            raise rate_limited(admission.scope, admission.retry_after_s, "too many requests")
        exchange.headers = _admitted(admission, request.sender, key)

    async def _send(self, exchange: RequestRecord, answer: Answer, send: Send) -> None:
        request = exchange.request
        unread = request.has_body and not request.body_complete
        closes = unread and not 0 < (request.declared_length or 0) <= _DISCARDED
        headers = [
            *_FIXED,
            (b"content-type", answer.content_type),
            (b"content-length", b"%d" % len(answer.body)),
            (b"x-request-id", request.request_id.encode()),
            (b"x-correlation-id", request.correlation_id.encode()),
            *exchange.headers,
            *answer.headers,
        ]
        if closes:
            headers.append((b"connection", b"close"))
        elif request.answer_at_once(answer.status, headers, answer.body):
            return
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        if closes and "expect" not in request.headers:
            await send({"type": "http.response.body", "body": answer.body, "more_body": True})
            await _linger(request)
            await send({"type": "http.response.body", "body": b""})
        else:
            await send({"type": "http.response.body", "body": answer.body})

    def _account(self, exchange: RequestRecord, answer: Answer) -> None:
        request, route = exchange.request, exchange.route
        taken = time.monotonic() - exchange.started
        method = one_of(METHODS, request.method)
        self._metrics.requests.inc(method, route, str(answer.status))
        self._metrics.durations.observe(taken, method, route)
        if labels := exchange.labels:
            self._metrics.webhooks.inc(
                labels.datasource, labels.platform, labels.event_type, answer.outcome
            )
        _log(exchange, answer, taken)
        if telemetry.is_configured() and route not in _OPERATIONAL:
            _trace(exchange, answer, taken)


def _segment(path: str) -> str | None:
    segment = path.removeprefix(WEBHOOKS)
    known = path.startswith(WEBHOOKS) and segment and "/" not in segment
    return segment if known else None


def _only(request: Request, *methods: str) -> None:
    if request.method not in methods:
        allowed = ", ".join(methods)
        raise Refusal(
            Code.METHOD_NOT_ALLOWED,
            f"only {allowed} is served here",
            headers=((b"allow", allowed.encode()),),
        )


def _not_found() -> Refusal:
    return Refusal(Code.NOT_FOUND, "there is nothing at this path")


def _admitted(admission: Admission, sender: str, key: str) -> tuple[tuple[bytes, bytes], ...]:
    if not admission.limit:
        return ()
    return (
        (b"x-ratelimit-limit", b"%d" % admission.limit),
        (b"x-ratelimit-remaining", b"%d" % admission.remaining),
        (b"x-ratelimit-scope", b"ip"),
        (b"x-ratelimit-key", f"{sender}:{key}".encode("latin-1", "replace")),
    )


async def _linger(request: Request) -> None:
    """Take in what is still being sent: closing on it at once could cost the sender its answer."""
    taken = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            while taken < _LINGER_BYTES:
                message = await request.receive()
                taken += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def _level(status: int) -> int:
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return logging.ERROR
    return logging.WARNING if status >= HTTPStatus.BAD_REQUEST else logging.DEBUG


def _log(exchange: RequestRecord, answer: Answer, taken_s: float) -> None:
    level = logging.DEBUG if exchange.route == READINESS else _level(answer.status)
    if not log.isEnabledFor(level):
        return
    request = exchange.request
    log.log(
        level,
        "%s %s %d",
        request.method,
        exchange.route,
        answer.status,
        extra={
            "event": "access",
            "method": request.method,
            "path": request.path[:200],
            "status": answer.status,
            "outcome": answer.outcome,
            "sender": request.sender or request.peer,
            "duration_ms": round(taken_s * 1000, 3),
        },
    )


def _trace(exchange: RequestRecord, answer: Answer, taken_s: float) -> None:
    ended = now()
    span = parse_traceparent(exchange.request.traceparent)
    if span is None:  # not with ids of our own, unless all their digits are zeros
        return
    telemetry.record(
        FinishedSpan(
            name=f"{exchange.request.method} {exchange.route}",
            context=span,
            parent_id=exchange.request.parent_span_id,
            started_at=ended - timedelta(seconds=taken_s),
            ended_at=ended,
            attributes={"http.route": exchange.route, "http.status_code": answer.status},
            error=answer.outcome if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR else "",
        )
    )
