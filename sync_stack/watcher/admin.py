"""The admin listener: liveness, readiness and metrics over plain HTTP, on its own thread."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from kernel.listeners import bound_socket
from sync_stack.configuration.startup import unavailable
from sync_stack.rpc.http_thread import HttpThread, Send
from sync_stack.watcher.metrics import CONTENT_TYPE

_JSON: Final = "application/json"
_STOP_S: Final = 2.0
Facts = Callable[[], tuple[bool, str, bool, int]]  # ready, detail, leader, targets
AdminResponse = tuple[int, str, bytes]


class AdminApp:
    """An ASGI application with three routes."""

    def __init__(self, facts: Facts, metrics: Callable[[], bytes]) -> None:
        self._facts = facts
        self._metrics = metrics

    async def __call__(self, scope: Any, _receive: Any, send: Send) -> None:
        status, kind, body = self._respond(scope["method"], scope["path"])
        headers = [
            (b"content-type", kind.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]
        if status == 405:  # noqa: PLR2004
            headers.append((b"allow", b"GET, HEAD"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        shown = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": shown})

    def _respond(self, method: str, path: str) -> AdminResponse:
        routes: dict[str, Callable[[], AdminResponse]] = {
            "/health/liveness": lambda: _document(200, {"status": "ok"}),
            "/health/readiness": self._readiness,
            "/metrics": lambda: (200, CONTENT_TYPE, self._metrics()),
        }
        if path not in routes:
            return _document(404, {"status": "NOT_FOUND"})
        if method not in ("GET", "HEAD"):
            return _document(405, {"status": "METHOD_NOT_ALLOWED"})
        return routes[path]()

    def _readiness(self) -> AdminResponse:
        ready, detail, leader, targets = self._facts()
        if not ready:
            return _document(503, {"status": "NOT_READY", "detail": detail})
        document = {"status": "READY", "leader": leader, "targets": targets}
        return _document(200, document | ({"detail": detail} if detail else {}))


def _document(status: int, content: Mapping[str, object]) -> AdminResponse:
    return status, _JSON, json.dumps(content).encode()


class AdminListener:
    """Serve the admin routes. Raises StartRefused if the address is not available."""

    def __init__(self, app: AdminApp, address: tuple[str, int]) -> None:
        host, port = address
        try:
            self._socket = bound_socket(host, port)
        except OSError as error:
            raise unavailable(f"ADMIN_ADDR {host}:{port}: {error.strerror}") from None
        self._socket.listen()
        self.port: int = self._socket.getsockname()[1]
        self._server = HttpThread("admin", app, self._socket)

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop(_STOP_S)
