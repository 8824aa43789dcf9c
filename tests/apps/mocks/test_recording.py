"""The proxy of `mock record`: it forwards, keeps, and leaves credentials out."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import pytest

from mocks.proxies.recorder import MAX_BODY, KeptCalls, RecordingProxy
from surfaces.recordings import mock_files
from tests.support.processes import ROOT, until

TARGET = "http://api.test/base"


_FIXED: dict[str, dict[str, Any]] = {
    "/picture": {
        "status_code": 200, "content": b"\xff\xd8", "headers": {"content-type": "image/jpeg"},
    },
    "/bytes": {"status_code": 200, "content": b"\xff\xfe"},
    "/none": {"status_code": 404, "html": "<p>no such page</p>"},
    "/moved": {"status_code": 302, "headers": {"location": f"{TARGET}/here"}},
}  # fmt: skip


def _upstream(request: httpx.Request) -> httpx.Response:
    assert request.url.host == "api.test"
    path = request.url.path.removeprefix("/base")
    if path == "/gone":
        raise httpx.ConnectError("secret address 10.0.0.1")
    if path == "/large":
        return httpx.Response(200, content=b"x" * (MAX_BODY + 1))
    if path in _FIXED:
        return httpx.Response(**_FIXED[path])
    echo = {
        "path": path,
        "sent": request.content.decode(),
        "auth": request.headers.get("authorization", ""),
        "method": request.method,
    }
    return httpx.Response(201, json=echo, headers={"set-cookie": "sid=c00kie-value", "x-a": "1"})


@pytest.fixture
def kept() -> KeptCalls:
    return KeptCalls()


@pytest.fixture
def proxy(kept: KeptCalls) -> Iterator[httpx.Client]:
    server = RecordingProxy(
        ("127.0.0.1", 0), TARGET, kept, transport=httpx.MockTransport(_upstream)
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    with httpx.Client(base_url=server.url, trust_env=False) as client:
        yield client
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "PROPFIND"])
def test_calls_are_forwarded_and_kept(proxy, kept, method):
    answer = proxy.request(
        method,
        "/orders/7?q=1",
        content=b'{"a": 1}',
        headers={"Authorization": "Bearer t0ken-t0ken"},
    )
    assert answer.status_code == 201
    assert answer.json() == {
        "path": "/orders/7", "sent": '{"a": 1}', "auth": "Bearer t0ken-t0ken", "method": method,
    }  # fmt: skip
    assert answer.headers["x-a"] == "1"
    (call,) = kept.calls()
    assert (call.method, call.path, call.status) == (method, "/base/orders/7", 201)
    assert call.query == (("q", "1"),)


def test_what_is_written_has_no_credentials(proxy, kept):
    proxy.get("/orders/7", headers={"Authorization": "Bearer t0ken-t0ken", "Cookie": "a=ck-value"})
    made = mock_files(kept.calls(), "shop", source="api.test")
    text = "\n".join(made.files.values())
    assert (made.operations, made.examples) == (1, 1)
    assert not [each for each in ("t0ken-t0ken", "ck-value", "c00kie-value") if each in text]
    assert 'path: "/base/orders/{orderId}"' in text


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/gone", 502, "ConnectError"),
        ("/large", 502, "larger than 10 MiB"),
    ],
)
def test_what_fails_is_said_and_not_kept(proxy, kept, path, status, says):
    answer = proxy.get(path)
    assert answer.status_code == status
    assert says in answer.text
    assert "10.0.0.1" not in answer.text
    assert kept.calls() == []


def test_pictures_and_bytes_pass_and_are_not_kept(proxy, kept):
    assert proxy.get("/picture").content == b"\xff\xd8"
    assert proxy.get("/bytes").content == b"\xff\xfe"
    assert kept.calls() == []
    assert sum(kept.recording.left_out.values()) == 2
    assert kept.take_notes() == [
        "GET /base/picture (200): a page, a picture, a script or a CORS preflight",
        "GET /base/bytes (200): the answer is not text",
    ]
    assert kept.take_notes() == []


def test_an_error_is_kept_though_it_is_a_page(proxy, kept):
    assert proxy.get("/none").status_code == 404
    (call,) = kept.calls()
    assert (call.status, call.response_body) == (404, "<p>no such page</p>")


def test_redirects_lead_back_to_the_proxy_and_head_has_no_body(proxy):
    moved = proxy.get("/moved")
    assert moved.headers["location"] == f"{str(proxy.base_url).rstrip('/')}/here"
    assert proxy.head("/orders").content == b""


def test_requests_that_are_no_calls_of_the_api_are_refused(proxy, kept):
    def chunks() -> Iterator[bytes]:
        yield b"a"

    assert proxy.post("/a", content=chunks()).status_code == 411
    with socket.create_connection((proxy.base_url.host, proxy.base_url.port or 0), 5) as raw:
        raw.sendall(f"POST /a HTTP/1.1\r\nContent-Length: {MAX_BODY + 1}\r\n\r\n".encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 413 ")
    assert kept.calls() == []


@pytest.mark.slow
@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_the_command_writes_while_it_records_until_a_signal(tmp_path, ended_by):
    class Api(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            kind = "text/css" if self.path == "/style" else "application/json"
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(b'{"id": 7}')

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    api = HTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=api.serve_forever, args=(0.05,), daemon=True).start()
    words = ["mock", "record", "--to", f"http://127.0.0.1:{api.server_address[1]}", "--port", "0"]
    command = [sys.executable, "manage.py", *words, "--out", str(tmp_path / "out")]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            answer = httpx.get(f"{said.split()[1]}/orders/7", trust_env=False)
            assert answer.json() == {"id": 7}
            until(lambda: [*tmp_path.rglob("get-orders-orderid.yaml")], within_s=30)
            httpx.get(f"{said.split()[1]}/style", trust_env=False)
            assert process.stderr.readline().startswith("left out: GET /style (200): a page")
            process.send_signal(ended_by)
            assert process.wait(30) == 0
        finally:
            process.kill()
    api.shutdown()
    api.server_close()
