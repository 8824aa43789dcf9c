"""The names that a server answers to (reference: control-plane 2)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apps.http.hosts import serve_known_hosts
from platform_site.settings import embedded
from tests.support.processes import ROOT

PRODUCTION = {
    "DJANGO_SETTINGS_MODULE": "platform_site.settings.production",
    "DB_DRIVER": "sqlite",
    "JWT_SECRET": "a-secret-for-this-test-0123456789-abcdef",
    "PUBLIC_API_URL": "https://partita.example.org",
}


def call(host: str | None, *, path: str = "/", kind: str = "http") -> tuple[int, dict[str, Any]]:
    """Return status and body; (200, {}) if the application within was asked."""
    sent: list[dict[str, Any]] = []

    async def within(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [] if host is None else [(b"host", host.encode("latin-1"))]
    scope = {"type": kind, "path": path, "headers": headers}
    asyncio.run(serve_known_hosts(within)(scope, None, send))  # type: ignore[arg-type]
    if sent[0]["type"] == "websocket.close":
        return sent[0]["code"], {}
    return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.fixture
def local(settings: Any) -> None:
    """What `up` serves by default."""
    settings.SERVED_HOSTS, settings.SERVE_ANY_ADDRESS = embedded.served_hosts(
        "127.0.0.1", ("http://localhost:8090", "https://partita.example.org")
    )


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8090", "LOCALHOST", "127.0.0.1:8090", "[::1]:8090", "a.localhost",
     "partita.example.org", None],
)  # fmt: skip
def test_up_answers_to_loopback_and_its_public_name(host: str | None) -> None:
    assert call(host) == (200, {})


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize(
    "host",
    ["evil.com", "evil.com:8090", "localhost.evil.com", "127.0.0.1.evil.com", "10.0.0.1", "",
     "localhost:8090:80", "localhost@evil.com", "\xff", "x" * 5000],
)  # fmt: skip
def test_up_answers_to_no_other_name(host: str) -> None:
    status, body = call(host)

    assert (status, body["code"]) == (400, "host_not_allowed")
    assert "ALLOWED_HOSTS" in body["detail"]
    assert len(body["detail"]) < 600


@pytest.mark.usefixtures("local")
def test_a_websocket_of_a_stranger_is_closed() -> None:
    assert call("evil.com", kind="websocket")[0] == 4400
    assert call("localhost", kind="websocket")[0] == 200


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/readyz/datastore", "/metrics"])
def test_probes_may_ask_by_any_name(path: str) -> None:
    assert call("10.0.0.1:8090", path=path)[0] == 200


def test_where_up_listens_everywhere_it_answers_to_addresses_and_to_no_strange_name(
    settings: Any,
) -> None:
    settings.SERVED_HOSTS, settings.SERVE_ANY_ADDRESS = embedded.served_hosts("0.0.0.0", ())

    assert call("192.168.1.5:8090")[0] == 200
    assert call("[fe80::1]:8090")[0] == 200
    assert call("host.docker.internal:8090")[0] == 200
    assert call("evil.com")[0] == 400


def served(tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Print SERVED_HOSTS of a process of production."""
    return subprocess.run(
        [sys.executable, "-c", "from django.conf import settings; print(*settings.SERVED_HOSTS)"],
        env={"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path), **PRODUCTION, **variables},
        cwd=ROOT, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip


def test_production_takes_its_hosts_from_the_environment(tmp_path: Path) -> None:
    assert served(tmp_path).stdout.split() == ["*"]
    listed = served(tmp_path, ALLOWED_HOSTS="control-plane.internal, .svc.cluster.local").stdout
    assert listed.split() == [
        "control-plane.internal", ".svc.cluster.local", "partita.example.org",
    ]  # fmt: skip


@pytest.mark.parametrize("value", ["https://partita.example.org", "partita:8090", "*.example.org"])
def test_an_allowed_host_that_is_no_name_is_refused(tmp_path: Path, value: str) -> None:
    refused = served(tmp_path, ALLOWED_HOSTS=value)

    assert refused.returncode != 0
    assert f"ALLOWED_HOSTS='{value}'" in refused.stderr


@pytest.mark.slow
def test_a_worker_starts_with_the_settings_of_production_and_without_the_secret(
    tmp_path: Path,
) -> None:
    asked = {
        name: subprocess.run(
            [sys.executable, "manage.py", name, "--help"],
            env={"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path), **PRODUCTION,
                 "JWT_SECRET": ""},
            cwd=ROOT, capture_output=True, text=True, timeout=180, check=False,
        )
        for name in ("run_worker", "run_runner")
    }  # fmt: skip

    assert asked["run_worker"].returncode == 0, asked["run_worker"].stderr
    assert asked["run_runner"].returncode == 78
    assert "JWT_SECRET must be set" in asked["run_runner"].stderr
