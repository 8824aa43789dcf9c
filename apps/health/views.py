"""`/healthz`, `/readyz` and their twins (reference: control-plane 19)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from django.http import HttpRequest, HttpResponse, JsonResponse

from apps.health.services import readiness_report, subsystem_report
from apps.http.api import read_only
from apps.operations.api import db_driver
from kernel import clock
from kernel.problems import RETRY_AFTER_S
from kernel.version import VERSION

_threads = ThreadPoolExecutor(
    max_workers=4, thread_name_prefix="readiness"
)  # the default pool is for all


@read_only
async def healthz(request: HttpRequest) -> HttpResponse:
    """Answer that the process runs; touch nothing else."""
    body = {
        "status": "ok",
        "dbDriver": db_driver(),
        "time": clock.rfc3339(clock.now()),
        "version": VERSION,
    }
    return _answer(body, status=200)


@read_only
async def readyz(request: HttpRequest) -> HttpResponse:
    report = await asyncio.get_running_loop().run_in_executor(_threads, readiness_report)
    return _answer(report, status=200 if report["status"] == "ready" else 503)


@read_only
async def readyz_subsystem(request: HttpRequest, subsystem: str) -> HttpResponse:
    loop = asyncio.get_running_loop()
    component = await loop.run_in_executor(_threads, subsystem_report, subsystem)
    stopped = component["required"] and not component["ready"]
    return _answer(component, status=503 if stopped else 200)


def _answer(body: Mapping[str, object], *, status: int) -> HttpResponse:
    again = {"Retry-After": str(RETRY_AFTER_S[status])} if status in RETRY_AFTER_S else {}
    return JsonResponse(body, status=status, headers={"Cache-Control": "no-store", **again})
