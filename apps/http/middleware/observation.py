"""What is kept of each answered request: a span, metrics and an audit record."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from http import HTTPStatus
from typing import Any, Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.http import conf
from apps.http.client_ip import client_ip
from apps.http.middleware.base import AsyncMiddleware, call_when_closed
from apps.observability.api import RequestContext, metrics, request_context
from apps.operations.api import Audited, is_audited, recorded_path, trail
from kernel import clock, telemetry
from kernel.trace_context import parse_traceparent

logger = logging.getLogger("partita.audit")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class TraceMiddleware(AsyncMiddleware):
    """A span for each request, named by its route pattern, where telemetry is configured.

    It ends when the answer is out. Query strings are never recorded.
    """

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        context = request_context()
        names = ("traceparent", "tracestate")
        caller = {name: request.headers[name] for name in names if name in request.headers}
        span = telemetry.server_span(context.route, caller, _attributes(request, context))
        if span is None:
            context.trace = parse_traceparent(request.headers.get("traceparent", ""))
            return await self.get_response(request)
        context.trace = telemetry.context_of(span)
        from opentelemetry.trace import use_span

        try:
            with use_span(span, end_on_exit=False, record_exception=False):
                response = await self.get_response(request)
        except asyncio.CancelledError:
            span.end()
            raise
        call_when_closed(response, lambda: _finish(span, context, response.status_code))
        return response


def _attributes(request: HttpRequest, context: RequestContext) -> dict[str, str]:
    return {
        "http.request_id": context.request_id,
        "http.route": context.route,
        "http.method": request.method or "",
        "http.request.method": request.method or "",
        "http.scheme": request.scheme or "http",
    }


def _finish(span: Any, context: RequestContext, status: int) -> None:
    """Who asked is known only now: the session is read when a view first needs it."""
    span.set_attribute("http.status_code", status)
    span.set_attribute("http.response.status_code", status)
    if context.user_id is not None:
        span.set_attribute("enduser.id", context.user_id)
        span.set_attribute("enduser.workspace_id", context.workspace_id or "")
        span.set_attribute("enduser.admin", bool(context.is_admin))
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        from opentelemetry.trace import StatusCode

        span.set_status(StatusCode.ERROR)
    span.end()


class HttpMetricsMiddleware(AsyncMiddleware):
    """How many requests, how many at once, how long (reference: control-plane 2).

    A request counts when its answer is out: a stream when it closes.
    """

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.monotonic()
        route = request_context().route
        method = request.method if request.method in _METHODS else "OTHER"
        active = {"http.method": str(method), "http.route": route}
        metrics.change("http.server.active_requests", +1, **active)

        def note_end(status: int) -> None:
            labels = {**active, "http.status_code": str(status)}
            metrics.change("http.server.active_requests", -1, **active)
            metrics.count("http.server.requests", **labels)
            metrics.observe(
                "http.server.duration.ms", (time.monotonic() - started) * 1000, **labels
            )

        return await self.observe_response(request, note_end)


class AuditMiddleware(AsyncMiddleware):
    """Writes the audit line and queues the row after the response; for a stream, when it closes."""

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not is_audited(request.method or "", request.path):
            return await self.get_response(request)
        context, started = request_context(), time.monotonic()

        def note_end(status: int) -> None:
            record_request(request, context, status=status, seconds=time.monotonic() - started)

        return await self.observe_response(request, note_end)


def record_request(
    request: HttpRequest, context: RequestContext, *, status: int, seconds: float
) -> None:
    record = Audited(
        time=clock.now(),
        request_id=context.request_id,
        method=(request.method or "")[:32],
        route=context.route,
        path=recorded_path(request.path),
        status=status,
        duration_ms=round(seconds * 1000),
        remote_addr=client_ip(request),
        user_id=context.user_id or "",
        workspace_id=context.workspace_id or "",
        agent_id=(context.agent_id or "")[:128],
        note=context.note,
    )
    logger.info("%s", json.dumps(record.as_dict(), separators=(",", ":")))
    if conf.keeps_audit_rows():
        trail.put(record)
