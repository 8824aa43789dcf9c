"""A local proxy that keeps the calls it forwards, for `mock record`.

    proxy = RecordingProxy(("127.0.0.1", 8091), "https://api.example.org", kept)
    proxy.serve_forever()

It forwards credentials, since the API wants them; no example has them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import httpx

from surfaces.recordings import RecordedCall, Recording
from surfaces.recordings.calls import header, split_url
from surfaces.recordings.har import is_static

MAX_BODY: Final = 10 * 2**20
TIMEOUT_S: Final = 30.0
MAX_NOTES: Final = 100  # at once
_HOP_BY_HOP: Final = frozenset((
    "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization",
    "te", "trailer", "transfer-encoding", "upgrade", "host", "content-length",
    "accept-encoding", "content-encoding", "expect",
))  # fmt: skip


class KeptCalls:
    """The calls so far, and what was left out of them since `take_notes`."""

    def __init__(self) -> None:
        self.recording = Recording()
        self._notes: list[str] = []
        self._lock = threading.Lock()

    def add(self, call: RecordedCall, body: bytes) -> None:
        """Keep a call if its answer is a text that belongs to an API, or an error."""
        is_page = is_static(header(call.response_headers, "content-type"))
        with self._lock:
            before = self.recording.left_out.copy()
            if call.method == "OPTIONS" or (is_page and call.status < HTTPStatus.BAD_REQUEST):
                self.recording.left_out["a page, a picture, a script or a CORS preflight"] += 1
            elif (text := _decode(body)) is None:
                self.recording.left_out["the answer is not text"] += 1
            else:
                self.recording.add(replace(call, response_body=text))
            for reason in self.recording.left_out - before:
                self._notes.append(f"{call.method} {call.path} ({call.status}): {reason}")

    def take_notes(self) -> list[str]:
        """Return what was left out, by method, path and status, and forget it."""
        with self._lock:
            notes, self._notes = self._notes[:MAX_NOTES], []
        return notes

    def calls(self) -> list[RecordedCall]:
        with self._lock:
            return list(self.recording.calls)


def _decode(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


class RecordingProxy(ThreadingHTTPServer):
    """Forwards every request to one address and keeps what was asked and answered.

    `meanwhile` is called again and again while it serves.
    """

    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        target: str,
        kept: KeptCalls,
        *,
        meanwhile: Callable[[], None] = lambda: None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._meanwhile = meanwhile
        self.target = target.rstrip("/")
        self.kept = kept
        self.client = httpx.Client(
            timeout=TIMEOUT_S, follow_redirects=False, trust_env=False, transport=transport
        )
        super().__init__(address, _Handler)  # last: it closes the server if it cannot listen

    @property
    def url(self) -> str:
        return f"http://{self.server_address[0]!s}:{self.server_address[1]}"

    def service_actions(self) -> None:
        self._meanwhile()

    def server_close(self) -> None:
        super().server_close()
        self.client.close()


class _Handler(BaseHTTPRequestHandler):
    server: RecordingProxy
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_S

    def __getattr__(self, name: str) -> Any:
        """Handle every method alike (`do_GET`, `do_PATCH`, …)."""
        if name.startswith("do_"):
            return self._forward
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the library
        """Log nothing: a path may hold credentials."""

    def _forward(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or "Transfer-Encoding" in self.headers:
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "send a body with Content-Length")
            return
        if int(length) > MAX_BODY:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is larger than 10 MiB")
            return
        if not self.path.startswith("/"):
            self._refuse(HTTPStatus.BAD_REQUEST, "send a path, not an absolute URL")
            return
        sent = self.rfile.read(int(length))
        try:
            status, headers, body = self._answer(sent)
        except _TooLarge:
            self._refuse(HTTPStatus.BAD_GATEWAY, "the answer is larger than 10 MiB")
            return
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            self._refuse(HTTPStatus.BAD_GATEWAY, f"{self.server.target}: {type(error).__name__}")
            return
        self._keep(status, headers, sent, body)
        self.send_response_only(status)
        for name, value in _end_to_end_headers(headers):
            self.send_header(name, self._here(name, value))
        self._send(body)

    def _answer(self, sent: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        with self.server.client.stream(
            self.command,
            f"{self.server.target}{self.path}",
            headers=list(_end_to_end_headers(self.headers.items())),
            content=sent,
        ) as answer:
            body = b""
            for piece in answer.iter_bytes():
                body += piece
                if len(body) > MAX_BODY:
                    raise _TooLarge
            return answer.status_code, answer.headers.multi_items(), body

    def _keep(
        self, status: int, headers: Iterable[tuple[str, str]], sent: bytes, body: bytes
    ) -> None:
        host, base, _ = split_url(self.server.target)
        _, path, query = split_url(self.path)
        call = RecordedCall(
            method=self.command,
            path=f"{base.rstrip('/')}{path}",
            status=status,
            surface=host,
            query=query,
            request_headers=tuple(self.headers.items()),
            request_body=sent.decode(errors="replace"),
            response_headers=tuple((name.title(), value) for name, value in headers),
        )
        self.server.kept.add(call, body)

    def _here(self, name: str, value: str) -> str:
        """Let redirects to the recorded API lead to this proxy."""
        if name.lower() == "location" and value.startswith(f"{self.server.target}/"):
            return f"{self.server.url}{value.removeprefix(self.server.target)}"
        return value

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self.close_connection = True
        self.send_response_only(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self._send(f"{reason}\n".encode())

    def _send(self, body: bytes) -> None:
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class _TooLarge(Exception):
    """The answer is larger than what is kept in memory."""


def _end_to_end_headers(headers: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return ((name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP)
