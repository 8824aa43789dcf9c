"""The HTTP API of the orchestrator: read only (reference: sync-stack 4.11)."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from django.db import Error as StoreError
from django.db import close_old_connections

from kernel.errors import PlatformError
from sync_stack.orchestrator.rows import tasks
from sync_stack.orchestrator.serving.documents import task_document
from sync_stack.orchestrator.serving.http_lists import list_drift, list_targets, list_tasks
from sync_stack.orchestrator.serving.http_wire import (
    Answer,
    Receive,
    Request,
    Scope,
    Send,
    answer,
    problem,
)
from sync_stack.orchestrator.serving.metrics import Metrics
from sync_stack.orchestrator.serving.openapi import DOCS_PAGE, OPENAPI

log: Final = logging.getLogger(__name__)
TASK_ROUTE: Final = "/v1/tasks/{task_id}"
_PROTECTED: Final = frozenset({"/v1/tasks", TASK_ROUTE, "/v1/targets", "/v1/drift"})
_TASK_ID: Final = re.compile(r"[0-9a-f-]{36}")  # what a store may be asked for


@dataclass(kw_only=True)
class HttpApi:
    """An ASGI application. `checks` says how the parts are: name → ok, degraded or failed."""

    keys: tuple[str, ...]
    origins: tuple[str, ...]
    checks: Callable[[], Mapping[str, str]]
    metrics: Metrics
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(4, thread_name_prefix="http-store")
    )

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request, begun = Request.of(scope), time.perf_counter()
        route = _route_of(request.path)
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self.threads, self.respond, request, route)
        head = request.method == "HEAD"
        await found.send(send, head_only=head, extra=self._cors(request))
        label = route or "other"
        method = request.method if request.method in ("GET", "HEAD", "OPTIONS") else "other"
        self.metrics.http.labels(method, label, str(found.status)).inc()
        self.metrics.http_seconds.labels(method, label).observe(time.perf_counter() - begun)

    def respond(self, request: Request, route: str) -> Answer:
        """Every error becomes a problem document."""
        close_old_connections()
        try:
            return self._routed(request, route)
        except PlatformError as error:
            allow = {"Allow": "GET, HEAD"} if error.problem_code == "method_not_allowed" else {}
            return problem(error, request, **allow)
        except StoreError as error:
            log.warning("%s: the store failed: %s", request.path, type(error).__name__)
            unusable = PlatformError("the store cannot be used", code="datastore_unavailable")
            return problem(unusable, request)

    def _routed(self, request: Request, route: str) -> Answer:
        if not route:
            raise PlatformError("there is no such path", code="not_found")
        if request.method == "OPTIONS" and self._cors(request):
            return Answer(body=b"", status=204)
        if request.method not in ("GET", "HEAD"):
            raise PlatformError(f"{request.method} is not allowed", code="method_not_allowed")
        if route in _PROTECTED:
            self._authenticate(request)
        return ROUTES[route](self, request)

    def _authenticate(self, request: Request) -> None:
        if not self.keys:
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        matched = [hmac.compare_digest(key.encode(), given.encode()) for key in self.keys]
        if scheme.lower() != "bearer" or not any(matched):
            raise PlatformError("a task API key is required", code="unauthenticated")

    def _cors(self, request: Request) -> dict[str, str]:
        origin = request.headers.get("origin", "")
        if not origin or origin not in self.origins:
            return {"vary": "Origin"} if self.origins else {}
        return {
            "access-control-allow-origin": origin,
            "access-control-allow-methods": "GET",
            "access-control-allow-headers": "Authorization",
            "vary": "Origin",
        }

    def task(self, request: Request) -> Answer:
        request.parameters(())
        task_id = request.path.rpartition("/")[2]
        task = tasks.get(task_id) if _TASK_ID.fullmatch(task_id) else None
        if task is None:
            raise PlatformError("there is no such task", code="task_not_found")
        tag = hashlib.sha256(f"{task.id}:{task.version}:{task.beat}".encode()).hexdigest()[:32]
        headers = {"etag": f'"{tag}"', "cache-control": "no-cache"}
        if f'"{tag}"' in request.headers.get("if-none-match", ""):
            return Answer(body=b"", status=304, headers=headers)
        return answer(task_document(task), headers=headers)

    def readiness(self, _request: Request) -> Answer:
        checks = dict(self.checks())
        ready = all(checks.get(part) == "ok" for part in ("store", "grpc", "background"))
        status = "READY" if ready else "NOT_READY"
        return answer({"status": status, "checks": checks}, status=200 if ready else 503)

    def liveness(self, _request: Request) -> Answer:
        return answer({"status": "OK"})

    def openapi(self, _request: Request) -> Answer:
        return answer(OPENAPI)

    def docs(self, _request: Request) -> Answer:
        policy = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return Answer(body=DOCS_PAGE, content_type="text/html; charset=utf-8", headers=policy)

    def scrape(self, _request: Request) -> Answer:
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return Answer(body=self.metrics.text(), content_type=kind)


ROUTES: Final[Mapping[str, Callable[[HttpApi, Request], Answer]]] = {
    TASK_ROUTE: HttpApi.task,
    "/v1/tasks": lambda _api, request: list_tasks(request),
    "/v1/targets": lambda _api, request: list_targets(request),
    "/v1/drift": lambda _api, request: list_drift(request),
    "/v1/health/liveness": HttpApi.liveness,
    "/v1/health/readiness": HttpApi.readiness,
    "/openapi.json": HttpApi.openapi,
    "/docs": HttpApi.docs,
    "/metrics": HttpApi.scrape,
}


def _route_of(path: str) -> str:
    """The route that a path belongs to; empty for none."""
    if path in ROUTES:
        return path
    is_task = path.startswith("/v1/tasks/") and path.count("/") == TASK_ROUTE.count("/")
    return TASK_ROUTE if is_task else ""
