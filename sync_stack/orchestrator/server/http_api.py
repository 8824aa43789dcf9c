"""The HTTP API of the orchestrator: read only (reference: sync-stack 4.11)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qsl

from django.db import Error as StoreError
from django.db import close_old_connections

from kernel.clock import parse_rfc3339
from kernel.errors import FieldError, PlatformError
from kernel.ids import new_uuid
from kernel.problems import PROBLEMS, problem_document, problem_headers
from sync_stack.core.tasks import State, TaskKind
from sync_stack.orchestrator.selectors import drift, lags, ledgers, tasks
from sync_stack.orchestrator.server.documents import (
    drift_document,
    target_document,
    task_document,
    unapplied_document,
)
from sync_stack.orchestrator.server.metrics import OrchestratorMetrics
from sync_stack.orchestrator.server.openapi import DOCS_PAGE, OPENAPI
from sync_stack.rpc.http_thread import Receive, Scope, Send

MAX_LIMIT: Final = 200
DEFAULT_LIMIT: Final = 50
QueryParameters = Mapping[str, list[str]]
_ID: Final = re.compile(r"[0-9a-f-]{36}\Z")
_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}\Z")
_PAGE: Final = ("limit", "cursor")
_TASK_COLUMNS: Final = ("kind", "platform", "datasource", "delivery_id")
_TASK_FACETS: Final = ("rule", "repo", "ref", "env")
_TASK_FILTERS: Final = ("state", "commit", "created_after", "created_before")
_DRIFT_STATES: Final = ("open", "healing", "healed", "resolved", "unhealed", "superseded")
_STATUSES: Final = (
    "in_sync",
    "drifted",
    "healing",
    "flapping",
    "syncing",
    "inconsistent",
    "unknown",
)
log: Final = logging.getLogger(__name__)
TASK_ROUTE: Final = "/v1/tasks/{task_id}"
UNAPPLIED_ROUTE: Final = "/v1/refs/unapplied"
_PROTECTED: Final = frozenset(
    {"/v1/tasks", TASK_ROUTE, "/v1/targets", UNAPPLIED_ROUTE, "/v1/drift"}
)
_TASK_ID: Final = re.compile(r"[0-9a-f-]{36}")  # the only ids that reach the store


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request; `path` does not end in `/`, and header names are lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]

    @classmethod
    def of(cls, scope: Scope) -> ApiRequest:
        headers = {
            name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
        }
        return cls(
            method=scope["method"],
            path=scope["path"].rstrip("/") or "/",
            query=scope["query_string"].decode("latin-1"),
            headers=headers,
        )

    def parameters(
        self, known: Sequence[str], repeated: Sequence[str] = ()
    ) -> dict[str, list[str]]:
        """Return name → values. Raises PlatformError for unknown and repeated parameters."""
        found: dict[str, list[str]] = {}
        for name, value in parse_qsl(self.query, keep_blank_values=True):
            if name not in known:
                raise invalid("unknown_parameter", name, f"known: {', '.join(sorted(known))}")
            if name in found and name not in repeated:
                raise invalid("invalid_parameter", name, "given more than once")
            if "\0" in value:
                raise invalid("invalid_parameter", name, "contains NUL")
            found.setdefault(name, []).append(value)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResponse:
    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    async def send(self, send: Send, *, head_only: bool, extra: Mapping[str, str]) -> None:
        headers = {
            "content-type": self.content_type,
            "content-length": str(len(self.body)),
            "x-content-type-options": "nosniff",
            "cache-control": "no-store",
            **self.headers,
            **extra,
        }
        pairs = [(name.lower().encode(), text.encode()) for name, text in headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": pairs})
        body = b"" if head_only else self.body
        await send({"type": "http.response.body", "body": body})


def json_response(document: Any, **options: Any) -> ApiResponse:
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return ApiResponse(body=text.encode(), **options)


def problem(error: PlatformError, request: ApiRequest, **headers: str) -> ApiResponse:
    document = problem_document(error, instance=request.path, request_id=str(new_uuid()))
    return json_response(
        document,
        status=PROBLEMS[error.problem_code],
        content_type="application/problem+json",
        headers=problem_headers(error) | headers,
    )


def invalid(code: str, name: str, detail: str) -> PlatformError:
    entry = FieldError(pointer=f"/{name}", code=code, detail=detail)
    return PlatformError(f"{name}: {detail}", code=code, errors=[entry])


def limit_of(parameters: Mapping[str, list[str]]) -> int:
    """Return `limit`, 1 to 200, by default 50. Raises PlatformError."""
    text = parameters.get("limit", [str(DEFAULT_LIMIT)])[0]
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAX_LIMIT:
        raise invalid("invalid_parameter", "limit", f"expected 1 to {MAX_LIMIT}")
    return int(text)


def list_tasks_page(request: ApiRequest) -> ApiResponse:
    known = (*_TASK_COLUMNS, *_TASK_FACETS, *_TASK_FILTERS, *_PAGE)
    parameters = request.parameters(known, repeated=("state",))
    where: dict[str, object] = {
        name: parameters[name][0] for name in _TASK_COLUMNS if name in parameters
    }
    if "kind" in parameters:
        where["kind"] = _among(
            "kind", parameters["kind"][0].lower(), [str(kind) for kind in TaskKind]
        )
    if "state" in parameters:
        states = [str(state) for state in State]
        where["state__in"] = [_among("state", text.upper(), states) for text in parameters["state"]]
    for name in ("created_after", "created_before"):
        if instant := _moment(parameters, name):
            where["created_at__gt" if name == "created_after" else "created_at__lt"] = instant
    facets = [f"{name}:{parameters[name][0]}\n" for name in _TASK_FACETS if name in parameters]
    facets += _commit(parameters)
    limit = limit_of(parameters)
    rows = tasks.list_tasks(where, facets, before=_cursor(parameters), limit=limit + 1)
    return _page("tasks", rows, limit, lambda row: task_document(row, whole=False))


def list_targets_page(request: ApiRequest) -> ApiResponse:
    parameters = request.parameters(("rule", "datasource", "repo", "env", "status", *_PAGE))
    where = _columns(
        parameters, {"rule": "rule_id"}, ("rule", "datasource", "repo", "env", "status")
    )
    if "status" in parameters:
        _among("status", parameters["status"][0], _STATUSES)
    limit = limit_of(parameters)
    rows = ledgers.list_targets(where, after=_cursor(parameters), limit=limit + 1)
    behind = lags.list_lags(rows[:limit])
    more: dict[str, object] = {"behindIncomplete": True} if behind.is_cut else {}
    of_target = behind.by_target
    return _page(
        "targets", rows, limit, lambda row: target_document(row, of_target.get(row.id)), **more
    )


def unapplied_refs(request: ApiRequest) -> ApiResponse:
    """Return the refs of which nothing was applied yet, at most 200, and if there may be more."""
    parameters = request.parameters(("rule", "repo"))
    found = lags.list_unapplied(_columns(parameters, {"rule": "rule_id"}, ("rule", "repo")))
    document: dict[str, object] = {"refs": [unapplied_document(ref) for ref in found.refs]}
    return json_response(document | ({"incomplete": True} if found.is_cut else {}))


def list_drift_page(request: ApiRequest) -> ApiResponse:
    parameters = request.parameters(("rule", "datasource", "repo", "env", "state", "since", *_PAGE))
    where = _columns(
        parameters, {"rule": "rule_id"}, ("rule", "datasource", "repo", "env", "state")
    )
    if "state" in parameters:
        _among("state", parameters["state"][0], _DRIFT_STATES)
    since = _moment(parameters, "since")
    limit = limit_of(parameters)
    rows = drift.list_drift(where, since=since, before=_cursor(parameters), limit=limit + 1)
    return _page("drift", rows, limit, drift_document)


def _columns(
    parameters: QueryParameters, renamed: Mapping[str, str], names: Sequence[str]
) -> dict[str, str]:
    return {renamed.get(name, name): parameters[name][0] for name in names if name in parameters}


def _moment(parameters: QueryParameters, name: str) -> datetime | None:
    if name not in parameters:
        return None
    try:
        return parse_rfc3339(parameters[name][0])
    except ValueError:
        raise invalid("invalid_parameter", name, "expected an RFC 3339 time") from None


def _commit(parameters: QueryParameters) -> list[str]:
    if "commit" not in parameters:
        return []
    text = parameters["commit"][0].lower()
    if not _COMMIT.match(text):
        raise invalid("invalid_parameter", "commit", "expected at least 7 hex digits")
    return [f"commit:{text}"]


def _among(name: str, text: str, options: Sequence[str]) -> str:
    if text not in options:
        raise invalid("invalid_parameter", name, f"expected one of {', '.join(options)}")
    return text


def _cursor(parameters: QueryParameters) -> str:
    if "cursor" not in parameters:
        return ""
    try:
        text = base64.urlsafe_b64decode(parameters["cursor"][0] + "==").decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        text = ""
    if not _ID.match(text):
        raise PlatformError("the cursor does not belong to this list", code="invalid_cursor")
    return text


def _page(
    name: str,
    rows: Sequence[Any],
    limit: int,
    document: Callable[[Any], dict[str, object]],
    **more: object,
) -> ApiResponse:
    """Return a page of a list; `more` are further members of the document."""
    body: dict[str, object] = {name: [document(row) for row in rows[:limit]], **more}
    if len(rows) > limit:
        cursor = base64.urlsafe_b64encode(rows[limit - 1].id.encode()).decode().rstrip("=")
        body["nextCursor"] = cursor
    return json_response(body)


@dataclass(kw_only=True)
class HttpApi:
    """An ASGI application. `checks` returns name → ok, degraded or failed."""

    keys: tuple[str, ...]
    origins: tuple[str, ...]
    checks: Callable[[], Mapping[str, str]]
    metrics: OrchestratorMetrics
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(4, thread_name_prefix="http-store")
    )

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request, begun = ApiRequest.of(scope), time.perf_counter()
        route = _route_of(request.path)
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self.threads, self.respond, request, route)
        head = request.method == "HEAD"
        await found.send(send, head_only=head, extra=self._cors(request))
        label = route or "other"
        method = request.method if request.method in ("GET", "HEAD", "OPTIONS") else "other"
        self.metrics.http.labels(method, label, str(found.status)).inc()
        self.metrics.http_seconds.labels(method, label).observe(time.perf_counter() - begun)

    def respond(self, request: ApiRequest, route: str) -> ApiResponse:
        """Return the response of a route; errors become problem documents."""
        close_old_connections()
        try:
            return self._route(request, route)
        except PlatformError as error:
            allow = {"Allow": "GET, HEAD"} if error.problem_code == "method_not_allowed" else {}
            return problem(error, request, **allow)
        except StoreError as error:
            log.warning("%s: the store failed: %s", request.path, type(error).__name__)
            unusable = PlatformError("the store cannot be used", code="datastore_unavailable")
            return problem(unusable, request)

    def _route(self, request: ApiRequest, route: str) -> ApiResponse:
        if not route:
            raise PlatformError("the path does not exist", code="not_found")
        if request.method == "OPTIONS" and self._cors(request):
            return ApiResponse(body=b"", status=204)
        if request.method not in ("GET", "HEAD"):
            raise PlatformError(f"{request.method} is not allowed", code="method_not_allowed")
        if route in _PROTECTED:
            self._authenticate(request)
        return ROUTES[route](self, request)

    def _authenticate(self, request: ApiRequest) -> None:
        if not self.keys:
            return
        scheme, _, parameters = request.headers.get("authorization", "").partition(" ")
        matched = [hmac.compare_digest(key.encode(), parameters.encode()) for key in self.keys]
        if scheme.lower() != "bearer" or not any(matched):
            raise PlatformError("a task API key is required", code="unauthenticated")

    def _cors(self, request: ApiRequest) -> dict[str, str]:
        origin = request.headers.get("origin", "")
        if not origin or origin not in self.origins:
            return {"vary": "Origin"} if self.origins else {}
        return {
            "access-control-allow-origin": origin,
            "access-control-allow-methods": "GET",
            "access-control-allow-headers": "Authorization",
            "vary": "Origin",
        }

    def task(self, request: ApiRequest) -> ApiResponse:
        request.parameters(())
        task_id = request.path.rpartition("/")[2]
        task = tasks.get(task_id) if _TASK_ID.fullmatch(task_id) else None
        if task is None:
            raise PlatformError("the task does not exist", code="task_not_found")
        tag = hashlib.sha256(f"{task.id}:{task.version}:{task.beat}".encode()).hexdigest()[:32]
        headers = {"etag": f'"{tag}"', "cache-control": "no-cache"}
        if f'"{tag}"' in request.headers.get("if-none-match", ""):
            return ApiResponse(body=b"", status=304, headers=headers)
        return json_response(task_document(task), headers=headers)

    def readiness(self, _request: ApiRequest) -> ApiResponse:
        checks = dict(self.checks())
        needed = (checks.get(part) for part in ("store", "grpc", "background"))
        ready = all(check in ("ok", "degraded") for check in needed)
        status = "READY" if ready else "NOT_READY"
        return json_response({"status": status, "checks": checks}, status=200 if ready else 503)

    def liveness(self, _request: ApiRequest) -> ApiResponse:
        return json_response({"status": "OK"})

    def openapi(self, _request: ApiRequest) -> ApiResponse:
        return json_response(OPENAPI)

    def docs(self, _request: ApiRequest) -> ApiResponse:
        policy = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return ApiResponse(body=DOCS_PAGE, content_type="text/html; charset=utf-8", headers=policy)

    def scrape(self, _request: ApiRequest) -> ApiResponse:
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return ApiResponse(body=self.metrics.text(), content_type=kind)


ROUTES: Final[Mapping[str, Callable[[HttpApi, ApiRequest], ApiResponse]]] = {
    TASK_ROUTE: HttpApi.task,
    "/v1/tasks": lambda _api, request: list_tasks_page(request),
    "/v1/targets": lambda _api, request: list_targets_page(request),
    UNAPPLIED_ROUTE: lambda _api, request: unapplied_refs(request),
    "/v1/drift": lambda _api, request: list_drift_page(request),
    "/v1/health/liveness": HttpApi.liveness,
    "/v1/health/readiness": HttpApi.readiness,
    "/openapi.json": HttpApi.openapi,
    "/docs": HttpApi.docs,
    "/metrics": HttpApi.scrape,
}


def _route_of(path: str) -> str:
    """Return the route of a path, empty if there is none."""
    if path in ROUTES:
        return path
    is_task = path.startswith("/v1/tasks/") and path.count("/") == TASK_ROUTE.count("/")
    return TASK_ROUTE if is_task else ""
