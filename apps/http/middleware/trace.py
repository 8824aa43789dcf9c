"""A span per request, named by its route pattern, where telemetry is configured."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.http.middleware.base import AsyncMiddleware, when_closed
from apps.observability.api import RequestContext, request_context
from kernel import telemetry
from kernel.trace_context import parse_traceparent


class TraceMiddleware(AsyncMiddleware):
    """The span ends when the answer is out. Query strings are never recorded."""

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        context = request_context()
        span = telemetry.server_span(
            context.route, _carrier(request), _attributes(request, context)
        )
        if span is None:
            context.trace = parse_traceparent(request.headers.get("traceparent", ""))
            return await self.get_response(request)
        context.trace = telemetry.context_of(span)
        try:
            response = await self._traced(request, span)
        except asyncio.CancelledError:
            span.end()
            raise
        when_closed(response, lambda: _finish(span, context, response.status_code))
        return response

    async def _traced(self, request: HttpRequest, span: Any) -> HttpResponseBase:
        from opentelemetry.trace import use_span

        with use_span(span, end_on_exit=False, record_exception=False):
            return await self.get_response(request)


def _carrier(request: HttpRequest) -> dict[str, str]:
    names = ("traceparent", "tracestate")
    return {name: request.headers[name] for name in names if name in request.headers}


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
