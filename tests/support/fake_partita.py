"""A server with the API that the client needs, and proxies that stand or cut before it."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kernel.clock import now, rfc3339
from kernel.version import VERSION

TOKEN = "pat_of-ada"
RUN = "run-0123456789ab"
PERSON = {
    "user": {"userId": "1", "email": "ada@example.org", "fullName": "Ada", "isAdmin": False},
    "workspace": {"workspaceId": "2", "name": "Ada's workspace", "slug": "ada"},
    "role": "runner",
    "expiresAt": "2030-01-01T00:00:00.000Z",
}
Answer = tuple[int, Any]
Handle = Callable[["FakePartita", dict[str, list[str]], Any], Answer]
Frames = Callable[["FakePartita", int], Iterator[tuple[int, bytes]]]


def summary(run_id: str = RUN, **more: Any) -> dict[str, Any]:
    return {
        "id": run_id,
        "suiteId": "shop",
        "suiteTitle": "Shop",
        "profile": "ci.yaml",
        "backendId": "local",
        "backend": "Local",
        "backendKind": "local",
        "trigger": "Manual",
        "author": "Ada",
        "status": "Failed",
        "failing": True,
        "sentence": "check exited with code 3",
        "reason": "step_failed",
        "duration": "00:19",
        "durationMs": 19000,
        "startedAt": "2026-11-24T17:05:33.000Z",
        "workspaceId": "2",
    } | more


def detail(run_id: str = RUN, **more: Any) -> dict[str, Any]:
    steps = [
        {"id": "api", "name": "api", "kind": "service", "status": "healthy", "attempt": 1,
         "duration": "00:05"},
        {"id": "check", "name": "check", "kind": "test", "status": "failed", "attempt": 1,
         "duration": "00:09", "reason": "exit_nonzero", "exitCode": 3},
    ]  # fmt: skip
    verdict = {
        "sentence": "check exited with code 3",
        "steps": [
            {"stepId": "check", "sentence": "check exited with code 3", "mayFail": False,
             "causes": [], "cases": [{"name": "pays", "classname": "shop", "message": "got 1"}],
             "moreCases": 0, "lines": [{"number": 7, "text": "expected 2, got 1"}],
             "wroteNothing": False},
        ],
        "moreSteps": 0,
        "healthySteps": 1,
        "next": f"partita run logs {run_id} --source check",
    }  # fmt: skip
    return summary(run_id) | {
        "updatedAt": "2026-11-24T17:06:00.000Z", "commit": "", "branch": "", "message": "",
        "lastEventId": 2, "lastLogId": 3, "verdict": verdict, "steps": steps, "artifacts": [],
        "attempts": [], "events": [],
    } | more  # fmt: skip


def problem(status: int, code: str, text: str = "no") -> Answer:
    return status, {"status": status, "code": code, "detail": text, "error": text}


class FakePartita:
    """`answers` overrides a route, as `GET /api/v1/executions`; `asked` has what came."""

    def __init__(self) -> None:
        self.lines = 3
        self.line: dict[str, Any] = {}  # what each line has besides
        self.sources = ["check"]  # the steps that write lines, in turn
        self.events: list[dict[str, Any]] = []  # as `event_of` makes them
        self.answers: dict[str, Handle] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.detail = detail()
        self.runs = [summary()]
        self.is_over = True
        self.url = ""

    def count(self, route: str) -> int:
        return sum(f"{method} {path}" == route for method, path, _ in self.asked)

    def answer(self, method: str, path: str, query: Any, body: Any) -> Answer:
        route = f"{method} {path}"
        handle = self.answers.get(route) or _ROUTES.get(route)
        return handle(self, query, body) if handle else problem(404, "not_found", "no such path")


def _launch(fake: FakePartita, _query: Any, body: Any) -> Answer:
    if body["suiteId"] == "nosuch":
        return problem(404, "suite_not_found", "there is no suite 'nosuch'; known: shop")
    return 201, summary("run-00000000000a", status="Queued", suiteId=body["suiteId"])


def _of_runs(fake: FakePartita, query: Any, _body: Any) -> Answer:
    wanted = query.get("status", [""])[0].split(",")
    found = [run for run in fake.runs if wanted == [""] or run["status"] in wanted]
    return 200, {"executions": found, "total": len(found)}


_SUITE = {
    "id": "shop", "title": "Shop", "description": "sells", "owner": "a", "version": "1",
    "repository": "workspace/shop", "state": "evaluated", "topology": [],
    "profiles": [{"fileName": "ci.yaml", "label": "CI", "description": "", "default": True}],
    "apiSurfaces": [{"id": "api"}],
}  # fmt: skip
_BACKEND = {"id": "local", "label": "Local", "kind": "local", "default": True, "available": True}
_PROFILE = {
    "id": "ci", "fileName": "ci.yaml", "name": "CI", "scope": "CI", "yaml": "env: {}\n",
    "default": True, "launchable": True, "source": "workspace",
}  # fmt: skip
_REGISTRY = {
    "registryId": "zot", "registryUrl": "https://zot.example", "syncStatus": "Indexed",
    "lastSyncedAt": "2026-11-24T17:05:33.000Z", "repositoryScope": "",
}  # fmt: skip
_SETTINGS = {
    "mode": "local", "fileInSync": True, "warnings": [], "registries": [_REGISTRY],
    "agents": [
        {"agentId": "local", "name": "Local", "type": "local", "enabled": True, "default": True,
         "routingTags": [], "maxConcurrentRuns": 0, "maxConcurrentSteps": 4, "status": "Ready"},
    ],
}  # fmt: skip
_CHANGE = {"key": "mode", "old": "local", "new": "remote"}
_CALL = {
    "id": "call-1", "time": "2026-11-24T17:05:33.000Z", "method": "GET", "path": "/goods",
    "surfaceId": "api", "outcome": "example", "status": 200, "durationMs": 3,
}  # fmt: skip
_RECORD = {
    "key": "orders", "surfaceId": "api", "fields": {"placed": "7"}, "version": 2,
    "updatedAt": "2026-11-24T17:05:33.000Z",
}  # fmt: skip
_EXPLAINED = {
    "operationId": "GET /goods", "dispatcher": "example", "constraints": [], "candidates": [],
    "schemaErrors": [],
    "response": {"status": 200, "mediaType": "application/json", "headers": {}, "body": "[]",
                 "delayMillis": 0},
}  # fmt: skip


def agent(name: str, **more: Any) -> dict[str, Any]:
    return {
        "agentId": name, "kind": "worker", "name": name, "status": "online", "capabilities": [],
        "backends": [name], "labels": {}, "registeredAt": "2026-11-24T17:05:33.000Z",
        "lastHeartbeatAt": rfc3339(now()), "runningJobs": 0, "runtimeAvailable": True,
    } | more  # fmt: skip


_AGENTS = [agent("edge", draining=True), agent("near")]
_SUMMARY = dict.fromkeys(
    ("queuedExecutions", "bootingExecutions", "runningSteps", "queuedSteps"), 0
)
_ROUTES: dict[str, Handle] = {
    "GET /healthz": lambda *_: (
        200,
        {"status": "ok", "version": VERSION, "time": rfc3339(now())},
    ),
    "GET /api/v1/system/readyz": lambda *_: (200, {"status": "ready", "components": []}),
    "GET /api/v1/auth/me": lambda *_: (200, PERSON),
    "GET /api/v1/executions": _of_runs,
    "POST /api/v1/executions": _launch,
    f"GET /api/v1/executions/{RUN}": lambda fake, *_: (200, fake.detail),
    f"GET /api/v1/executions/{RUN}/since-green": lambda *_: (
        200,
        {"sentence": "1 difference since run-0", "moreDifferences": 0, "differences": [
            {"kind": "image", "name": "db", "change": "changed", "before": "a:1", "after": "a:2"}
        ]},
    ),
    f"POST /api/v1/executions/{RUN}/cancel": lambda *_: (202, summary(status="Canceling")),
    "GET /api/v1/suites": lambda *_: (200, {"suites": [_SUITE], "total": 1}),
    "GET /api/v1/suites/shop": lambda *_: (200, _SUITE),
    "GET /api/v1/profiles/suites": lambda *_: (
        200, {"suites": [{"id": "shop", "profileCount": 1, "launchableCount": 1}], "total": 1}
    ),
    "GET /api/v1/profiles/suites/shop": lambda *_: (200, {"profiles": [_PROFILE]}),
    "GET /api/v1/executions/launch-suites": lambda *_: (
        200, {"suites": [{**_SUITE, "backends": [_BACKEND]}], "total": 1}
    ),
    "GET /api/v1/sandboxes": lambda *_: (
        200, {"containerRuntimeAvailable": True, "sandboxes": [], "warnings": []}
    ),
    "GET /api/v1/catalog/packages": lambda *_: (200, {"packages": [], "total": 0, "warnings": []}),
    "GET /api/v1/platform-settings": lambda *_: (200, _SETTINGS),
    "POST /api/v1/platform-settings/preview": lambda *_: (200, {"changes": [_CHANGE]}),
    "PUT /api/v1/platform-settings": lambda *_: (200, _SETTINGS),
    "POST /api/v1/platform-settings/registries/zot/test": lambda *_: (
        200,
        {"registryId": "zot", "reachable": True, "code": "", "detail": "it answers",
         "durationMs": 3},
    ),
    "POST /api/v1/platform-settings/registries/zot/sync": lambda *_: (
        200, {**_SETTINGS, "sync": {"packages": 1, "durationMs": 3, "errors": []}}
    ),
    "GET /api/v1/agents": lambda *_: (200, {"agents": _AGENTS}),
    "POST /api/v1/agents/near/drain": lambda *_: (200, agent("near", draining=True)),
    "POST /api/v1/agents/near/resume": lambda *_: (200, agent("near")),
    "GET /api/v1/executions/overview": lambda *_: (200, {"summary": _SUMMARY}),
    "GET /api/v1/mocks/state": lambda *_: (200, {"records": [_RECORD], "counters": []}),
    "PATCH /api/v1/mocks/state": lambda *_: (200, _RECORD),
    "DELETE /api/v1/mocks/state": lambda *_: (200, {"removed": 1}),
    "GET /api/v1/mocks/journal": lambda *_: (200, {"entries": [_CALL]}),
    "POST /api/v1/mocks/explain": lambda *_: (200, _EXPLAINED),
    "POST /api/v1/mocks/verify": lambda *_: (
        200, {"count": 1, "verified": True, "detail": "found 1 call", "calls": [_CALL]}
    ),
    "POST /api/v1/auth/sign-out": lambda *_: problem(403, "session_required"),
}  # fmt: skip


class _Call(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakePartita

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        place = urlsplit(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(size)
        is_json = self.headers.get("Content-Type") == "application/json"
        body = json.loads(sent) if sent and is_json else sent.decode() or None
        self.fake.asked.append((self.command, place.path, body))
        self.fake.headers.append({name.lower(): value for name, value in self.headers.items()})
        is_public = place.path == "/healthz" or place.path.startswith("/api/v1/auth/device")
        if not is_public and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._send(*problem(401, "token_revoked", "the API token is unknown"))
        elif place.path.endswith(("/logs", "/events")):
            frames = _log_frames if place.path.endswith("/logs") else _event_frames
            self._stream(parse_qs(place.query), frames)
        else:
            query = parse_qs(place.query)
            self._send(*self.fake.answer(self.command, place.path, query, body))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - names of the library

    def _send(self, status: int, body: Any) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, query: dict[str, list[str]], frames: Frames) -> None:
        """Send what there is and what comes, until the run is over."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        last = max(int(query["since"][0]), 0)
        with contextlib.suppress(OSError):
            self.wfile.write(b": connected\n\n")
            while True:
                is_over = self.fake.is_over
                for number, chunk in frames(self.fake, last):
                    self.wfile.write(chunk)
                    last = number
                if is_over:
                    break
                self.wfile.write(b": ping\n\n")
                self.wfile.flush()
                time.sleep(0.05)
            self.wfile.write(b'event: end\ndata: {"status":"Failed","lastId":1}\n\n')


def _log_frames(fake: FakePartita, last: int) -> Iterator[tuple[int, bytes]]:
    """Yield the frames of the lines after `last`, up to 200 at once, with the id of the last."""
    numbers = iter(range(last + 1, fake.lines + 1))
    while some := list(islice(numbers, 200)):
        yield some[-1], b"".join(frame_of(number, _line(fake, number)) for number in some)


def _line(fake: FakePartita, number: int) -> dict[str, Any]:
    return {"source": fake.sources[number % len(fake.sources)], **fake.line}


def _event_frames(fake: FakePartita, last: int) -> Iterator[tuple[int, bytes]]:
    for number, event in enumerate(list(fake.events)[last:], start=last + 1):
        record = {"id": number, "executionId": RUN, "failing": False, "duration": "00:01"}
        record |= {"executionStatus": fake.detail["status"], "event": event}
        record["updatedAt"] = event["time"]
        yield number, f"id: {number}\ndata: {json.dumps(record)}\n\n".encode()


def event_of(source: str, what: str, status: str, *, attempt: int = 1, **more: Any) -> Any:
    """Return an event of a step as the API has it."""
    name = f"{source}-{what}" + (f"-{attempt}" if attempt > 1 else "")
    return {"id": name, "source": source, "timestamp": "00:01", "time": rfc3339(now()),
            "text": what, "status": status, "level": "info", "attempt": attempt} | more  # fmt: skip


def frame_of(number: int, more: dict[str, Any]) -> bytes:
    line = {"source": "check", "timestamp": "00:01", "time": "", "level": "info",
            "kind": "output", "text": f"line {number}"} | more  # fmt: skip
    record = json.dumps({"id": number, "executionId": RUN, "line": line})
    return f"id: {number}\ndata: {record}\n\n".encode()


@contextlib.contextmanager
def serve_fake(context: ssl.SSLContext | None = None) -> Iterator[FakePartita]:
    """Serve on a free port of this machine; by TLS with a context."""
    fake = FakePartita()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Call", (_Call,), {"fake": fake}))
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    fake.url = f"http{'s' if context else ''}://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield fake
    finally:
        fake.is_over = True
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextlib.contextmanager
def serve_bytes(content: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Answer each connection with the same bytes and its end; yield address and requests."""
    asked: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                with near:
                    asked.append(near.recv(65_536))
                    near.sendall(content)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


class Relay:
    """Passes connections on to a server; the first `cuts` of them only so many bytes back."""

    def __init__(self, port: int, *, cuts: int, after_bytes: int) -> None:
        self.cuts, self.after_bytes, self.target = cuts, after_bytes, port
        self.accepted = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.accepted += 1
                limit = self.after_bytes if self.accepted <= self.cuts else None
                threading.Thread(target=self._pass, args=(near, limit), daemon=True).start()

    def _pass(self, near: socket.socket, limit: int | None) -> None:
        with near, socket.create_connection(("127.0.0.1", self.target)) as far:
            threading.Thread(target=_copy, args=(near, far, None), daemon=True).start()
            _copy(far, near, limit)
            for each in (near, far):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


def _copy(source: socket.socket, target: socket.socket, limit: int | None) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(4096):
            if limit is not None and len(data) >= limit:
                target.sendall(data[:limit])
                return
            limit = None if limit is None else limit - len(data)
            target.sendall(data)


class _ProxyCall(BaseHTTPRequestHandler):
    seen: list[str]

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_CONNECT(self) -> None:
        self.seen.append(f"CONNECT {self.path} {self.headers.get('Proxy-Authorization', '')}")
        port = self.path.rpartition(":")[2]
        with socket.create_connection(("127.0.0.1", int(port))) as far:
            self.send_response(200)
            self.end_headers()
            self.wfile.flush()
            threading.Thread(target=_copy, args=(self.connection, far, None), daemon=True).start()
            _copy(far, self.connection, None)
        self.close_connection = True

    def do_GET(self) -> None:
        self.seen.append(f"GET {self.path}")
        place = urlsplit(self.path)
        with socket.create_connection(("127.0.0.1", place.port or 80)) as far:
            head = f"GET {place.path}?{place.query} HTTP/1.0\r\n"
            names = [n for n in self.headers if n.lower() != "connection"]
            far.sendall(
                (head + "".join(f"{n}: {self.headers[n]}\r\n" for n in names) + "\r\n").encode()
            )
            _copy(far, self.connection, None)
        self.close_connection = True


@contextlib.contextmanager
def serve_proxy() -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a proxy to this machine, and what it was asked for."""
    seen: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Call", (_ProxyCall,), {"seen": seen}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://ada:pass@127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
