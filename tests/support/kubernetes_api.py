"""A scripted Kubernetes API for ConfigMaps: resource versions, watches, faults in a given order."""

from __future__ import annotations

import copy
import itertools
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qsl

from tests.support.http_threads import serve_http

Object = dict[str, Any]
LABEL: Final = "app.kubernetes.io/managed-by"


@dataclass
class Api:
    """`faults`: answers given instead of the next requests of a method: (method, status).

    `events` are what watches tell: version, type, path, object. A watch from before `oldest` is
    told that its version is gone. `ended` ends those that are under way. With `tokens` set, a
    request without one of them gets 401.
    """

    server: str = ""
    namespaces: set[str] = field(default_factory=lambda: {"apps"})
    objects: dict[str, Object] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    faults: list[tuple[str, int]] = field(default_factory=list)
    requests: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, credential
    lock: threading.Lock = field(default_factory=threading.Lock)
    versions: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    events: list[tuple[int, str, str, Object]] = field(default_factory=list)
    oldest: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def fault(self, method: str) -> int:
        for index, (wanted, status) in enumerate(self.faults):
            if wanted == method:
                del self.faults[index]
                return status
        return 0

    def store(self, path: str, made: Object) -> Object:
        made = copy.deepcopy(made)
        version = next(self.versions)
        made["metadata"]["resourceVersion"] = str(version)
        kind = "MODIFIED" if path in self.objects else "ADDED"
        self.objects[path] = made
        self.events.append((version, kind, path, made))
        return made

    def delete(self, path: str) -> None:
        """Somebody else's kubectl delete."""
        with self.lock:
            self.events.append((next(self.versions), "DELETED", path, self.objects.pop(path)))

    def listed(self) -> tuple[int, Object]:
        """Of a list the version only: nobody asks for more."""
        with self.lock:
            if status := self.fault("GET"):
                return status, {"kind": "Status", "code": status}
            newest = self.events[-1][0] if self.events else 0
            return 200, {"metadata": {"resourceVersion": str(newest)}, "items": []}

    def since(self, version: int, path: str) -> list[tuple[int, Object]]:
        """What a watch of labeled ConfigMaps of a namespace has to tell next."""
        with self.lock:
            if version < self.oldest:
                return [(0, {"type": "ERROR", "object": {"kind": "Status", "code": 410}})]
            return [
                (number, {"type": kind, "object": made})
                for number, kind, where, made in self.events
                if number > version and where.startswith(f"{path}/")
                if made["metadata"].get("labels", {}).get(LABEL) == "partita"
            ]

    def by_hand(self, path: str, data: dict[str, str], **fields: Any) -> None:
        """Somebody else's kubectl patch; it creates what is missing, without a label."""
        with self.lock:
            found = self.objects.get(path) or {"metadata": {"name": path.rsplit("/", 1)[-1]}}
            self.store(path, {**found, **fields, "data": {**found.get("data", {}), **data}})

    def respond(
        self, method: str, path: str, credential: str, asked: dict[str, str], raw: bytes
    ) -> tuple[int, Object]:
        """Check the token, then list or answer; watches are not checked."""
        if self.tokens and credential.removeprefix("Bearer ") not in self.tokens:
            return 401, {"kind": "Status", "code": 401}
        if asked.get("labelSelector"):
            return self.listed()
        return self.answer(method, path, json.loads(raw) if raw else {})

    def answer(self, method: str, path: str, body: Object) -> tuple[int, Object]:
        with self.lock:
            if status := self.fault(method):
                return status, {"kind": "Status", "code": status}
            if method == "POST":
                return self._create(path, body)
            if path not in self.objects:
                return 404, {"kind": "Status", "code": 404}
            return (200, self.objects[path]) if method == "GET" else self._replace(path, body)

    def _create(self, path: str, body: Object) -> tuple[int, Object]:
        name = body["metadata"]["name"]
        if path == "/api/v1/namespaces":
            self.namespaces.add(name)
            return 201, body
        if path.split("/")[4] not in self.namespaces:
            return 404, {"kind": "Status", "code": 404}
        if f"{path}/{name}" in self.objects:
            return 409, {"kind": "Status", "code": 409}
        return 201, self.store(f"{path}/{name}", body)

    def _replace(self, path: str, body: Object) -> tuple[int, Object]:
        found = self.objects[path]
        if (body.get("data") or {}).keys() & (body.get("binaryData") or {}).keys():
            return 422, {"kind": "Status", "code": 422}
        if body["metadata"].get("resourceVersion") != found["metadata"]["resourceVersion"]:
            return 409, {"kind": "Status", "code": 409}
        if found.get("immutable") and body.get("data") != found.get("data"):
            return 422, {"kind": "Status", "code": 422}
        return 200, self.store(path, body)

    def watched(self, path: str, asked: dict[str, str]) -> Iterator[bytes]:
        """Lines as they come, until the time is over or the version is gone."""
        end = time.monotonic() + float(asked["timeoutSeconds"])
        version = int(asked["resourceVersion"])
        while not self.ended.is_set() and time.monotonic() < end:
            for number, event in self.since(version, path):
                yield json.dumps(event).encode() + b"\n"
                version = number
                if not number:
                    return
            time.sleep(0.02)


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Api]:
    """Run the API on loopback, over HTTPS with `tls`."""
    api = Api()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            api.requests.append((self.command, self.path, self.headers.get("Authorization", "")))
            path, _, query = self.path.partition("?")
            asked = dict(parse_qsl(query))
            if asked.get("watch"):
                self._watch(path, asked)
                return
            status, made = api.respond(
                self.command, path, self.headers.get("Authorization", ""), asked, raw
            )
            text = json.dumps(made).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_PUT = do_GET  # noqa: N815

        def _watch(self, path: str, asked: dict[str, str]) -> None:
            """Events as they come, then the end of the answer."""
            assert asked["labelSelector"] == f"{LABEL}=partita"
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            for line in api.watched(path, asked):
                self.wfile.write(line)
                self.wfile.flush()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Quiet."""

    with serve_http(Handler, tls) as server:
        api.server = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
        try:
            yield api
        finally:
            api.ended.set()
