"""The control plane as uvicorn serves it with production settings: a real process and sockets."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.support.processes import until
from tests.support.servers import free_port
from tests.support.store_templates import copy_sqlite_store

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
START_S = 120


def documented_command(port: int) -> list[str]:
    """As docs/operations.md has it, on another port."""
    text = (ROOT / "docs" / "operations.md").read_text()
    found = re.search(
        r"^uvicorn (platform_site\.asgi:application (?:.*\\\n)*.*)$", text, re.MULTILINE
    )
    assert found
    words = found[1].replace("--host 0.0.0.0 --port 8090", f"--host 127.0.0.1 --port {port}")
    return [sys.executable, "-m", "uvicorn", *words.replace("\\\n", " ").split()]


APPLICATION = "platform_site.asgi:application"


class Server:
    def __init__(self, folder: Path, application: str = APPLICATION) -> None:
        self.port, self.metrics_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "server.log"
        self.environment = {
            "PATH": os.environ["PATH"],
            "DJANGO_SETTINGS_MODULE": "platform_site.settings.production",
            "DB_DRIVER": "sqlite",
            "DATA_DIR": str(folder),
            "JWT_SECRET": "a-secret-for-this-test-0123456789-abcdef",
            "PUBLIC_API_URL": self.url,
            "METRICS_ADDR": f"127.0.0.1:{self.metrics_port}",
        }
        copy_sqlite_store(folder)
        documented = documented_command(self.port)
        assert APPLICATION in documented
        command = [application if word == APPLICATION else word for word in documented]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=self.environment, stdout=output, stderr=output
            )
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            try:
                httpx.get(f"{self.url}/healthz")
            except httpx.TransportError:
                assert self.process.poll() is None, self.log.read_text()
                time.sleep(0.1)
            else:
                return
        raise AssertionError(f"not up after {START_S} s: {self.log.read_text()}")

    def raw(self, request: bytes) -> bytes:
        """What comes back for a hand-written request until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server"))
    yield running
    running.process.kill()
    running.process.wait()


def test_it_serves_health_files_and_problems(server: Server) -> None:
    assert httpx.get(f"{server.url}/healthz").json()["status"] == "ok"
    store = f"{server.url}/readyz/datastore"  # a probe has 2 s, which a busy machine may use up
    until(lambda: httpx.get(store).json()["status"] == "ready", within_s=30, what="the store")
    script = httpx.get(
        f"{server.url}/static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui.css"
    )
    assert (script.status_code, script.headers["content-type"]) == (200, "text/css; charset=utf-8")
    again = httpx.get(script.url, headers={"If-None-Match": script.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_body_without_end_is_refused_at_its_limit(server: Server) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(12):
            yield b"x" * 2**20

    answer = httpx.post(
        f"{server.url}/api/v1/auth/sign-in",
        content=endless(),
        headers={"Content-Type": "application/json"},
        timeout=30,
    )

    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


@pytest.mark.parametrize(
    "target", [b"/%ff%fe", b"/?q=%ff", b"/?\xff\xfe=\xc3", b"/api/v1/%00", b"//x//y", b"/a%2fb"]
)
def test_odd_targets_are_no_server_errors(server: Server, target: bytes) -> None:
    answer = server.raw(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

    assert int(answer.split(b" ", 2)[1]) < 500


@pytest.mark.parametrize("method", ["BREW", "PROPFIND", "get"])
@pytest.mark.parametrize("path", ["/healthz", "/api/v1/auth/config", "/sign-in", "/static/x"])
def test_a_method_that_nothing_has_is_a_problem(server: Server, method: str, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request(method, path)

    answer = connection.getresponse()

    document = json.loads(answer.read())
    connection.close()
    assert (answer.status, document["code"]) == (405, "method_not_allowed")
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers["Allow"].startswith("GET, HEAD")
    assert document["instance"] == path


def test_what_is_no_http_is_a_problem_too(server: Server) -> None:
    answer = server.raw(b"\x16\x03\x01\x00\xa5 hello\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "invalid_parameter"


def test_metrics_are_on_their_own_listener(server: Server) -> None:
    text = httpx.get(f"http://127.0.0.1:{server.metrics_port}/metrics").text

    assert 'http_server_requests_total{http_method="GET",http_route="/healthz"' in text
    assert httpx.get(f"{server.url}/metrics").status_code == 404


def test_requests_leave_audit_lines_and_rows(server: Server) -> None:
    httpx.get(f"{server.url}/api/v1/nothing?token=secret", headers={"X-Request-Id": "audited-1"})

    def written() -> list[str]:
        return [entry for entry in server.log.read_text().splitlines() if "audited-1" in entry]

    [line] = until(written, within_s=30, what="the audit line")
    assert json.loads(line)["path"] == "/api/v1/nothing"
    assert "secret" not in line
    until(lambda: stored(server, "audited-1"), within_s=30, what="the audit row")


def stored(server: Server, request_id: str) -> bool:
    path = Path(server.environment["DATA_DIR"]) / "partita.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT count(*) FROM system_auditrecord WHERE request_id = ?"
        return bool(connection.execute(query, [request_id]).fetchone()[0])


JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJlLWNhbmFyeQ"
OPAQUE = "Canary-0123456789-abcdefghijklmnopqrstuvwxy"
EVENTS = "/api/v1/executions/run-0123456789ab/events"


@pytest.mark.parametrize("secret", [JWT, OPAQUE, "canary-of-another-shape"])
def test_no_log_line_of_the_documented_command_holds_a_credential(server: Server, secret: str):
    targets = [
        f"{EVENTS}?token={secret}",
        f"{EVENTS}?since=1&%74oken={secret}",
        f"/api/v1/engine/overview/stream?token={secret}",
        f"/api/v1/executions?ticket={secret}",
        f"/api/v1/auth/oidc/callback?code={secret}&state={secret}",
        f"/auth/callback?code={secret}",
        f"/reset-password?token={secret}",
        f"/nothing?token={secret}",
        f"/static/no?token={secret}",
        *([f"/api/v1/executions/{secret}", f"/reset/{secret}"] if secret in (JWT, OPAQUE) else []),
    ]
    headers = {"Authorization": f"Bearer {secret}", "Cookie": f"partita_session={secret}"}
    before = len(server.log.read_text())

    for method in ("GET", "HEAD", "POST", "BREW"):
        for target in targets:
            httpx.request(method, server.url + target, headers=headers, timeout=10)
            httpx.request(method, server.url + target, timeout=10)
    server.raw(f"GET /?token={secret} HTTP/9.9\r\n{secret}\r\n\r\n".encode())

    def logged() -> str:
        text = server.log.read_text()[before:]
        return text if text.count("/static/no") >= 6 else ""

    assert secret not in until(logged, within_s=30, what="the access log")


def test_the_start_fails_without_a_secret(server: Server) -> None:
    environment = {**server.environment, "JWT_SECRET": "change-me"}
    for settings in ("production", "local"):
        environment["DJANGO_SETTINGS_MODULE"] = f"platform_site.settings.{settings}"
        started = subprocess.run(
            [sys.executable, "-c", "import platform_site.asgi"],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180,
            check=False,
        )  # fmt: skip
        assert started.returncode == 1
        assert "JWT_SECRET must be set" in started.stderr


def test_sigterm_drains_first_and_then_ends(tmp_path: Path) -> None:
    server = Server(tmp_path, "tests.support.slow_drain:application")
    try:
        with httpx.Client(base_url=server.url) as client:
            assert client.get("/healthz").status_code == 200
            server.process.send_signal(signal.SIGTERM)

            ready = until(
                lambda: answer if (answer := client.get("/readyz")).status_code != 200 else None,
                within_s=30, what="the server is draining",
            )  # fmt: skip
            refused, alive = client.get("/api/v1/suites"), client.get("/healthz")

        assert (ready.status_code, ready.json()["status"]) == (503, "not_ready")
        assert (refused.status_code, refused.json()["code"]) == (503, "shutting_down")
        assert alive.status_code == 200
        assert server.process.wait(30) in (0, -signal.SIGTERM)
    finally:
        server.process.kill()
        server.process.wait()
