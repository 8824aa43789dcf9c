"""`/healthz`, `/readyz` and their twins (reference: control-plane 19)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse

from apps.system import conf
from apps.system.http.problems import problem_for
from apps.system.services.readiness import readiness_report, subsystem_report
from kernel import clock
from kernel.errors import PlatformError

View = Callable[..., Awaitable[HttpResponse]]
_METHODS = ("GET", "HEAD", "OPTIONS")
_threads = ThreadPoolExecutor(
    max_workers=4, thread_name_prefix="readiness"
)  # the default pool is for all


def for_reading(view: View) -> Any:
    """GET and HEAD for anybody, whatever query a load balancer adds; OPTIONS names them."""

    @wraps(view)
    async def checked(request: HttpRequest, **kwargs: str) -> HttpResponse:
        if request.method == "OPTIONS":
            return HttpResponse(status=204, headers={"Allow": ", ".join(_METHODS)})
        if request.method not in _METHODS:
            return HttpResponseNotAllowed(_METHODS)
        try:
            return await view(request, **kwargs)
        except PlatformError as error:
            return problem_for(request, error)

    return checked


@for_reading
async def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers; touches nothing else."""
    body = {"status": "ok", "dbDriver": conf.db_driver(), "time": clock.rfc3339(clock.now())}
    return _uncached(body, status=200)


@for_reading
async def readyz(request: HttpRequest) -> HttpResponse:
    report = await asyncio.get_running_loop().run_in_executor(_threads, readiness_report)
    return _uncached(report, status=200 if report["status"] == "ready" else 503)


@for_reading
async def readyz_subsystem(request: HttpRequest, subsystem: str) -> HttpResponse:
    loop = asyncio.get_running_loop()
    component = await loop.run_in_executor(_threads, subsystem_report, subsystem)
    stopped = component["required"] and not component["ready"]
    return _uncached(component, status=503 if stopped else 200)


def _uncached(body: dict[str, Any], *, status: int) -> HttpResponse:
    return JsonResponse(body, status=status, headers={"Cache-Control": "no-store"})
