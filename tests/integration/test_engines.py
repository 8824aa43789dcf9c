"""One runner, several engines: a run on the one behind TLS, while another is away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests.support.parts import need
from tests.support.processes import until
from tests.support.tls_engine import Authority, behind_tls_aside
from tests.support.up import Up, write_suite

pytestmark = pytest.mark.docker
STAR = """
    load("@partita/runtime", "service", "task")
    web = service.run(
        image = "python:3.12-alpine",
        command = ["python3", "-m", "http.server", "8080"],
        ports = [8080],
        ready = {"http": "/", "interval": "200ms", "timeout": "60s"},
    )
    look = task.run(
        image = "busybox:1.36",
        commands = ["wget -q -O /dev/null http://web:8080/ && echo seen"],
        after = [web],
    )
"""


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    host = need("TEST_DOCKER_HOST", "a Docker engine")
    if not host.startswith("unix://"):
        pytest.skip("the engine of the tests has no socket here")
    authority = Authority()
    ours = authority.pair("partita")
    write_suite(tmp_path / "suites", "web", STAR, {"profiles/ci.yaml": "name: CI\ndefault: true\n"})
    with behind_tls_aside(host.removeprefix("unix://"), authority, tmp_path) as url:
        far = {"agentId": "far", "name": "Far", "type": "remote-docker", "hostUrl": url}
        agents = [
            {"agentId": "here", "name": "Here", "type": "local", "default": True},
            far | {"tlsCert": ours.certificate + authority.pem, "tlsKey": ours.key},
            far | {"agentId": "gone", "name": "Gone", "hostUrl": "tcp://127.0.0.1:9"},
        ]
        settings = tmp_path / "configuration.yaml"
        settings.write_text(json.dumps({"agents": agents}))
        made = Up(
            tmp_path / "up",
            PLATFORM_SETTINGS_FILE=str(settings),
            SUITES_DIR=str(tmp_path / "suites"),
            UP_DEMO="0",
        )
        try:
            yield made.start()
        finally:
            made.end()


def test_each_backend_is_available_when_its_own_engine_answers(up: Up) -> None:
    """Invariants 14 and 37."""
    with up.client() as client:

        def available() -> dict[str, bool] | None:
            suite = client.get("/executions/launch-suites").json()["suites"][0]
            found = {each["id"]: each["available"] for each in suite["backends"]}
            return found if found["here"] and found["far"] else None

        found = until(available, within_s=30, what="two backends are available")
        body = {"suiteId": "web", "profile": "ci.yaml"}
        refused = client.post("/executions", json=body | {"backend": "gone"})
        started = client.post("/executions", json=body | {"backend": "far"})

    assert found == {"here": True, "far": True, "gone": False}
    assert (refused.status_code, refused.json()["code"]) == (503, "backend_unavailable")
    run = up.wait_for(started.json()["id"])
    assert run["status"] == "Healthy", run["steps"]
    assert [line["text"] for line in up.lines(run["id"], source="look") if not line["kind"]]
    assert {step["agentId"].rpartition(":")[2] for step in run["steps"]} == {"far"}
    until(lambda: not _left_of(run["id"]), within_s=60, what="nothing is left of the run")


def _left_of(run_id: str) -> list[str]:
    """Containers and networks, a helper among them."""
    wanted = {"label": f"partita.run_id={run_id}"}
    with docker.APIClient(base_url=need("TEST_DOCKER_HOST", "a Docker engine")) as client:
        found = [*client.containers(all=True, filters=wanted), *client.networks(filters=wanted)]
    return [str(each["Id"]) for each in found]
