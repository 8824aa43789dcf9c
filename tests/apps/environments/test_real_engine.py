"""Looks and sweeps on a real Docker engine: what is not ours survives, whatever its names say."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.environments import api
from apps.environments.services import snapshots
from apps.workers import inventory
from tests.apps.environments.conftest import RunnerOfLoops, principal_of
from tests.apps.executions_rest.conftest import Caller
from tests.support.labeled_resources import LabeledResources, labels_of
from tests.support.parts import need
from worker.domain.runtime import RuntimeOptions
from worker.runtimes.docker.runtime import DockerRuntime

pytestmark = pytest.mark.docker


@pytest.fixture
def installation(monkeypatch: pytest.MonkeyPatch) -> str:
    made = f"test-{secrets.token_hex(6)}"
    monkeypatch.setattr(inventory, "installation_id", lambda: made)
    return made


@pytest.fixture
def resources() -> Iterator[LabeledResources]:
    made = LabeledResources(
        need("TEST_DOCKER_HOST", "a Docker engine"), f"inv-{secrets.token_hex(4)}"
    )
    yield made
    made.remove()


@pytest.fixture
def runner(
    installation: str, start_runner: Callable[..., RunnerOfLoops], tmp_path: Path
) -> RunnerOfLoops:
    options = RuntimeOptions(state_dir=tmp_path, installation_id=installation)
    return start_runner(DockerRuntime(options))


@pytest.mark.usefixtures("runner")
def test_a_sweep_leaves_what_is_foreign_and_what_was_made_meanwhile(
    installation: str, resources: LabeledResources, admin: Caller
) -> None:
    """Invariant 15."""
    run, other = f"run-{secrets.token_hex(6)}", f"run-{secrets.token_hex(6)}"
    for kind in ("container", "network", "volume"):
        resources.create(kind, f"ours-{kind}", labels_of(installation, run))
        resources.create(kind, f"strange-{kind}", labels_of("another", run))
        unmanaged = {**labels_of(installation, run), "partita.managed": "no"}
        resources.create(kind, f"unmanaged-{kind}", unmanaged)
    for number in range(4):
        resources.create("container", f"ours-more-{number}", labels_of(installation, run))
    me, ended, made = principal_of(admin), threading.Event(), list[str]()

    def create_meanwhile() -> None:
        while not ended.is_set():
            name = f"meanwhile-{len(made)}"
            made.append(resources.create("volume", name, labels_of(installation, other)))

    snapshot = api.snapshot(me)
    creating = threading.Thread(target=create_meanwhile)
    creating.start()
    try:
        result = api.reap(me, run)
    finally:
        ended.set()
        creating.join()

    assert snapshot["sandboxes"][0]["summary"] == "5 containers, 1 networks, 1 volumes"
    assert (result["removedContainers"], result["warnings"]) == (5, [])
    assert (result["removedNetworks"], result["removedVolumes"]) == (1, 1)
    left = resources.names()
    assert not [name for name in left if "ours" in name]
    assert len([name for name in left if "strange" in name or "unmanaged" in name]) == 6
    assert made
    assert set(made) <= left


@pytest.mark.usefixtures("runner")
def test_a_container_is_shown_with_its_image_state_ports_and_exit_code(
    installation: str, resources: LabeledResources, admin: Caller
) -> None:
    run = f"run-{secrets.token_hex(6)}"
    flags = [f"--label={key}={value}" for key, value in labels_of(installation, run).items()]
    for name, more, words in (
        ("serves", ["-d", "-p", "127.0.0.1::80", "--expose", "81"], ["sleep", "60"]),
        ("failed", [], ["sh", "-c", "exit 7"]),
    ):
        full = f"{resources.prefix}-{name}"
        resources.made[full] = "container"
        script = ["run", *more, "--name", full, *flags, "busybox:1.36", *words]
        run_ignoring_its_exit(resources, script)

    [found] = api.snapshot(principal_of(admin))["sandboxes"]

    shown = {each["name"].rpartition("-")[2]: each for each in found["containers"]}
    assert {each["image"] for each in shown.values()} == {"busybox:1.36"}
    assert (shown["serves"]["state"], shown["failed"]["state"]) == ("running", "exited")
    assert shown["failed"]["exitCode"] == 7
    published, exposed = sorted(shown["serves"]["ports"])
    assert published.endswith(" -> 80/tcp")
    assert exposed == "81/tcp"
    assert snapshots.look_again().available


def run_ignoring_its_exit(resources: LabeledResources, words: list[str]) -> Any:
    import subprocess

    command = ["docker", "-H", resources.docker_host, *words]
    return subprocess.run(command, check=False, capture_output=True, timeout=180)
