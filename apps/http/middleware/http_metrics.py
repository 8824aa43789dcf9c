"""How many requests, how many at once, how long (reference: control-plane 2)."""

from __future__ import annotations

import time
from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.http.middleware.base import AsyncMiddleware
from apps.observability.api import metrics, request_context

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class HttpMetricsMiddleware(AsyncMiddleware):
    """Counts a request when its answer is out: a stream when it closes."""

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.monotonic()
        route = request_context().route
        method = request.method if request.method in _METHODS else "OTHER"
        active = {"http.method": str(method), "http.route": route}
        metrics.change("http.server.active_requests", +1, **active)

        def ended(status: int) -> None:
            labels = {**active, "http.status_code": str(status)}
            metrics.change("http.server.active_requests", -1, **active)
            metrics.count("http.server.requests", **labels)
            metrics.observe(
                "http.server.duration.ms", (time.monotonic() - started) * 1000, **labels
            )

        return await self.answered(request, ended)
