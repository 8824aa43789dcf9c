"""The HEALTHCHECK of the image: what each command serves is asked, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kernel import container_health
from kernel.container_health import address_of
from tests.support import compose
from tests.support.manifests import BASE, pod_specs, written_objects

WEB = "uvicorn platform_site.asgi:application"


class Answers(BaseHTTPRequestHandler):
    """Answers `/healthz` with the status of its server."""

    def do_GET(self) -> None:
        known: Any = self.server
        status = known.status if self.path == "/healthz" else HTTPStatus.NOT_FOUND
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        """Write nothing."""


class Server(HTTPServer):
    status = HTTPStatus.OK


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Answers) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs the check in a container with this command; its exit code."""

    def check(command: str) -> int:
        file = tmp_path / "cmdline"
        file.write_bytes(b"\0".join(word.encode() for word in command.split()) + b"\0")
        monkeypatch.setattr(container_health, "_COMMAND", file)
        return container_health.main()

    return check


@pytest.mark.parametrize(
    ("command", "variables", "asked"),
    [
        (f"{WEB} --port=8090", {}, ("http://127.0.0.1:8090", "/healthz")),
        (f"{WEB} --host 0.0.0.0 --port 80", {}, ("http://127.0.0.1:80", "/healthz")),
        (f"/opt/partita/bin/{WEB} --host ::", {}, ("http://127.0.0.1:8000", "/healthz")),
        (f"{WEB} --host=10.0.0.7 --port=80", {}, ("http://10.0.0.7:80", "/healthz")),
        (f"{WEB} --port=443 --ssl-keyfile=/k", {}, ("https://127.0.0.1:443", "/healthz")),
        ("python manage.py run_worker", {}, ("http://127.0.0.1:8091", "/healthz")),
        (
            "python manage.py run_worker",
            {"AGENT_PORT": "9000"},
            ("http://127.0.0.1:9000", "/healthz"),
        ),
        (
            "/sbin/docker-init -- python manage.py run_gateway",
            {"ADMIN_ADDR": "0.0.0.0:9"},
            ("http://127.0.0.1:9", "/health/liveness"),
        ),
        (
            "sh -c exec partita run_watcher",
            {"ADMIN_ADDR": "10.0.0.7:9"},
            ("http://10.0.0.7:9", "/health/liveness"),
        ),
        ("python manage.py up", {}, ("http://127.0.0.1:8090", "/healthz")),
        ("python manage.py run_runner", {}, None),
        ("celery --app=platform_site worker", {}, None),
        ("python manage.py help", {}, None),
    ],
)
def test_what_the_command_serves_is_asked(
    command: str, variables: dict[str, str], asked: tuple[str, str] | None
) -> None:
    assert address_of(command.split(), variables) == asked


def test_the_addresses_are_those_of_the_compose_file_and_of_the_manifests() -> None:
    services = compose.services({"MONGO_ROOT_PASSWORD": "x"})
    for name in ("orchestrator-api", "gateway", "watcher"):
        found = address_of(services[name]["command"], {})
        url = services[name]["healthcheck"]["test"][-1]
        assert found is not None
        assert "".join(found) == url.replace("readiness", "liveness")

    (web,) = dict(pod_specs(written_objects(BASE)))["partita-web"]["containers"]
    assert address_of(web["args"], {}) == (
        f"http://127.0.0.1:{web['ports'][0]['containerPort']}",
        web["livenessProbe"]["httpGet"]["path"],
    )


def test_a_server_that_answers_is_healthy(server: Server, run: Any) -> None:
    assert run(f"{WEB} --port={server.server_port}") == 0


def test_a_server_that_answers_with_an_error_is_not_healthy(
    server: Server, run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    server.status = HTTPStatus.SERVICE_UNAVAILABLE

    assert run(f"{WEB} --port={server.server_port}") == 1
    assert capsys.readouterr().out.endswith("/healthz answers 503\n")


def test_a_server_that_does_not_answer_is_not_healthy(
    server: Server, run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    server.shutdown()
    server.server_close()

    assert run(f"{WEB} --port={server.server_port}") == 1
    assert "does not answer" in capsys.readouterr().out


def test_a_command_that_serves_nothing_is_healthy(run: Any) -> None:
    assert run("celery --app=platform_site worker") == 0
