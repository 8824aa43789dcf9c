"""The HTTP side of a worker, as a plain ASGI application: it needs no store.

(reference: control-plane 15.3)
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import re
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Any, Final, Protocol

from kernel import background
from kernel.clock import now, rfc3339
from kernel.errors import InvalidInput, NotFound, PlatformError
from kernel.problems import problem_document, problem_headers
from readers import Unreadable
from readers.json import read_json
from worker.credentials import check_bearer
from worker.direct_runs import DirectRunRecord
from worker.domain.runtime import RemovedResources, RuntimeFailure
from worker.domain.step_spec import StepSpec, parse_step_spec
from worker.service import facts
from worker.supervisor.waits import first_of

log = logging.getLogger("partita.workers")
MAX_BODY: Final = 10 * 2**20
_JOB: Final = re.compile(r"^/api/v1/agent/jobs/([^/]+)/(cancel|cleanup)\Z")
_JOB_ID: Final = re.compile(r"^job_[A-Za-z0-9_-]{22}\Z")
_RUN_ID: Final = re.compile(r"^run-[0-9a-f]{12}\Z")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class WorkerInterface(Protocol):
    """The worker as its routes use it."""

    agent_id: str
    secret: str

    def info(self) -> Mapping[str, object]: ...
    async def start(
        self, spec: StepSpec, files: bytes | None
    ) -> AsyncGenerator[DirectRunRecord]: ...
    def cancel(self, job_id: str) -> bool: ...
    async def cleanup(self, job_id: str) -> RemovedResources | None: ...


class MethodNotAllowed(PlatformError):
    code = "method_not_allowed"

    def __init__(self, allowed: str) -> None:
        super().__init__(f"this route accepts {allowed}")
        self.allowed = allowed


class JobUnknown(PlatformError):
    code = "job_not_found"

    def __init__(self) -> None:
        super().__init__("this worker has no such job")


class ClientGone(Exception):
    pass


class WorkerApplication:
    def __init__(self, worker: WorkerInterface) -> None:
        self._worker = worker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._route(scope, receive, send)
        except ClientGone:
            return
        except PlatformError as error:
            await _send_problem(send, scope, error)
        except RuntimeFailure as failure:
            away = PlatformError(str(failure), code="container_runtime_unavailable")
            await _send_problem(send, scope, away)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            await _send_problem(send, scope, PlatformError("this worker had an internal error"))

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path == "/healthz":
            _require(scope, "GET")
            await _send_json(send, {"status": "ok"})
            return
        if path == "/readyz":
            _require(scope, "GET")
            report = readiness()
            await _send_json(send, report, status=200 if report["status"] == "ready" else 503)
            return
        authorization = _header(scope, b"authorization")
        check_bearer(authorization, secret=self._worker.secret, agent_id=self._worker.agent_id)
        if path == "/api/v1/agent/info":
            _require(scope, "GET")
            await _send_json(send, self._worker.info())
        elif path == "/api/v1/agent/run":
            _require(scope, "POST")
            await self._run(scope, receive, send)
        elif job := _JOB.match(path):
            _require(scope, "POST")
            await _send_json(send, await self._cancel_or_clean_up(job[1], job[2]))
        else:
            raise NotFound("there is no such route")

    async def _cancel_or_clean_up(self, job_id: str, verb: str) -> Mapping[str, str | int]:
        if verb == "cancel":
            if not self._worker.cancel(job_id):
                raise JobUnknown
            return {"status": "canceled"}
        removed = await self._worker.cleanup(job_id)
        if removed is None:
            raise JobUnknown
        return facts(removed)

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        spec, files = _parse_request(_header(scope, b"content-type"), await _body(receive))
        records = await self._worker.start(spec, files)
        async with aclosing(records):
            await _stream(records, receive, send)


async def _stream(records: AsyncGenerator[DirectRunRecord], receive: Receive, send: Send) -> None:
    """Stream the records until the job ends or the client disconnects."""
    headers = [(b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await first_of(written=_write(records, send), disconnected=_disconnect(receive))


async def _write(records: AsyncGenerator[DirectRunRecord], send: Send) -> None:
    async for record in records:
        body = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        await send({"type": "http.response.body", "body": body, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _parse_request(media_type: str, raw: bytes) -> tuple[StepSpec, bytes | None]:
    """Return the step and the files of its suite. Raises PlatformError."""
    if media_type.partition(";")[0].strip().lower() != "application/json":
        raise PlatformError("the body must be application/json", code="unsupported_media_type")
    try:
        body = read_json(raw)
    except Unreadable as error:
        raise PlatformError(f"the body is not JSON: {error}", code="malformed_json") from None
    if not isinstance(body, Mapping):
        raise InvalidInput("the body must be an object")
    spec, files = parse_step_spec(body), _files(body.get("contentBase64"))
    for name, value, form in (
        ("jobId", spec.job_id, _JOB_ID),
        ("executionId", spec.execution_id, _RUN_ID),
    ):
        if not form.match(value):  # they name folders, containers and volumes
            raise InvalidInput(f"{name} must have the form {form.pattern}")
    if spec.node.file and files is None:
        raise InvalidInput("contentBase64 is required: the node runs a file")
    return spec, files


def _files(encoded: Any) -> bytes | None:
    if encoded is None:
        return None
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise InvalidInput("contentBase64 is not Base64") from None


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise PlatformError(f"more than {MAX_BODY} bytes", code="payload_too_large")
        if not message.get("more_body"):
            return bytes(body)


def _require(scope: Scope, method: str) -> None:
    allowed = "GET, HEAD" if method == "GET" else method
    if scope["method"] not in allowed.split(", "):
        raise MethodNotAllowed(allowed)


def _header(scope: Scope, name: bytes) -> str:
    found = [value for key, value in scope["headers"] if key == name]
    return found[0].decode("latin-1") if found else ""


def readiness() -> dict[str, object]:
    """Return the report of `/readyz`, as the control plane's: the detail names failing loops."""
    checked_at, failing, degraded = (
        rfc3339(now()),
        background.failing(),
        background.degraded_loops(),
    )
    status = "not_ready" if failing else "ready"
    detail = f"degraded: {', '.join(degraded)}" if degraded else ""
    component = {
        "name": "background",
        "status": "degraded" if degraded and not failing else status,
        "ready": not failing,
        "required": True,
        "detail": f"failed: {', '.join(failing)}" if failing else detail,
        "checkedAt": checked_at,
        "durationMs": 0,
    }
    return {"status": status, "checkedAt": checked_at, "components": [component]}


async def _send_json(send: Send, body: Mapping[str, object], *, status: int = 200) -> None:
    await _send(send, status, "application/json", json.dumps(body).encode())


async def _send_problem(send: Send, scope: Scope, error: PlatformError) -> None:
    request_id = uuid.uuid4().hex
    document = problem_document(error, instance=scope["path"], request_id=request_id)
    headers = {"X-Request-Id": request_id, **problem_headers(error)}
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = error.allowed
    body = json.dumps(document).encode()
    await _send(send, document["status"], "application/problem+json", body, headers)


async def _send(
    send: Send,
    status: int,
    media_type: str,
    body: bytes,
    more_headers: Mapping[str, str] = MappingProxyType({}),
) -> None:
    fields = {
        "Content-Type": media_type,
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        **more_headers,
    }
    headers = [(name.lower().encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
