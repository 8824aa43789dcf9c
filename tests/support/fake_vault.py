"""A small HTTP server that speaks Vault's documented API: sign-in, lookup, renewal, kv v1 and v2.

No Vault is packaged for the machines that run these tests. The shapes of requests and answers are
those of Vault's API documentation; what else a real server does is not shown by these tests.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.http_threads import serve_http


@dataclass
class Behaviour:
    """What the server knows, and how it misbehaves."""

    secrets: dict[str, dict[str, Any]] = field(default_factory=dict)  # path below the mount
    logins: dict[str, dict[str, str]] = field(default_factory=dict)  # route -> expected body
    tokens: set[str] = field(default_factory=set)
    lease_s: int = 3600
    renewable: bool = True
    namespace: str = ""
    kv_version: int = 2
    delay_s: float = 0.0
    failures: list[int] = field(default_factory=list)  # statuses of the next answers
    requests: list[str] = field(default_factory=list)

    def count(self, request: str) -> int:
        return self.requests.count(request)


class FakeVault:
    def __init__(self) -> None:
        self.behaviour = Behaviour()
        behaviour = self.behaviour

        class Handler(_Handler):
            does = behaviour

        self._serving = ExitStack()
        self._server = self._serving.enter_context(serve_http(Handler))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._serving.close()


class _Handler(BaseHTTPRequestHandler):
    does: Behaviour

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def log_message(self, *_args: Any) -> None:
        """Silent."""

    def _answer(self, method: str) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        route = self.path.removeprefix("/v1/")
        self.does.requests.append(f"{method} {route}")
        time.sleep(self.does.delay_s)
        if self.does.failures:
            self._send(self.does.failures.pop(0), {"errors": ["made to fail"]})
        elif self.headers.get("X-Vault-Namespace", "") != self.does.namespace:
            self._send(404, {"errors": []})
        elif route in self.does.logins:
            self._login(route, body)
        elif self.headers.get("X-Vault-Token", "") not in self.does.tokens:
            self._send(403, {"errors": ["permission denied"]})
        else:
            self._with_token(method, route)

    def _login(self, route: str, body: dict[str, str]) -> None:
        if body != self.does.logins[route]:
            self._send(400, {"errors": ["invalid credentials"]})
            return
        token = f"hvs.{len(self.does.requests):04d}-login-token"
        self.does.tokens.add(token)
        self._send(200, {"auth": {"client_token": token, **self._life()}})

    def _life(self) -> dict[str, Any]:
        return {"lease_duration": self.does.lease_s, "renewable": self.does.renewable}

    def _with_token(self, method: str, route: str) -> None:
        if (method, route) == ("GET", "auth/token/lookup-self"):
            data = {"ttl": self.does.lease_s, "renewable": self.does.renewable}
            self._send(200, {"data": data})
        elif (method, route) == ("POST", "auth/token/renew-self"):
            self._send(200, {"auth": self._life()})
        else:
            self._secret(route)

    def _secret(self, route: str) -> None:
        found = self.does.secrets.get(route)
        if found is None:
            self._send(404, {"errors": []})
        elif self.does.kv_version == 1:
            self._send(200, {"data": found})
        else:
            self._send(200, {"data": {"data": found, "metadata": {"version": 3}}})

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        with suppress(ConnectionError):  # who waited no longer
            self.end_headers()
            self.wfile.write(body)
