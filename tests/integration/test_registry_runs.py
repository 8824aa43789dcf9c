"""Runs of suites that exist only in a registry: alone, and imported by a lock."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.files import write_files
from tests.support.processes import until
from tests.support.registry_suites import TestRegistry
from tests.support.up import Up, runtime_of

CHILD = {
    "suite.star": (
        'first = task.run("first", image = "busybox:1.36", file = "say.sh")\n'
        'task.run("second", image = "busybox:1.36", file = "say.sh", after = [first])\n'
    ),
    "tasks/say.sh": '#!/bin/sh\ncat "$PARTITA_WORKSPACE_DIR/words.txt"\necho "$REGION"\n',
    "words.txt": "from the registry, version {version}\n",
    "metadata.yaml": "title: Distant\n",
}
PARENT = {
    "suite.star": (
        'old = suite.run("old", ref = "old")\n'
        'new = suite.run("new", ref = "new", after = [old])\n'
        'task.run("last", image = "busybox:1.36", commands = ["echo done"], after = [new])\n'
    ),
    "dependencies.yaml": (
        "dependencies:\n"
        "  old: {{ref: '{repository}:1', inputs: {{REGION: eu}}}}\n"
        "  new: {{ref: '{repository}:2', inputs: {{REGION: us}}}}\n"
    ),
}


@pytest.fixture(
    scope="module", params=["process", pytest.param("docker", marks=pytest.mark.docker)]
)
def runtime(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def registry() -> TestRegistry:
    return TestRegistry()


@pytest.fixture(scope="module")
def up(
    tmp_path_factory: pytest.TempPathFactory, registry: TestRegistry, runtime: str
) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("registry-runs")
    (folder / "configuration.yaml").write_text(
        "agents:\n  - {agentId: local, name: Local, type: local, default: true}\n"
        + registry.settings_text()
    )
    write_files(folder / "suites" / "tiny", {"suite.star": 'log.info("hello")\n'})
    up = Up(
        folder / "up",
        SUITES_DIR=str(folder / "suites"),
        PLATFORM_SETTINGS_FILE=str(folder / "configuration.yaml"),
        UP_DEMO="0",
        **runtime_of(runtime),
    )
    up.start()
    repository = registry.repository("distant")
    for version in ("1", "2"):
        draft = folder / "suites" / "distant"
        write_files(draft, {**CHILD, "words.txt": CHILD["words.txt"].format(version=version)})
        pushed = up.manage("suite", "push", "distant", f"{repository}:{version}")
        assert pushed.returncode == 0, pushed.stderr
        shutil.rmtree(draft)
    wait_for_backend(up)
    yield up
    up.end()


def wait_for_backend(up: Up) -> None:
    """The runner is online a moment after the pages."""
    with up.client() as client:

        def is_available() -> bool:
            (suite,) = client.get("/executions/launch-suites").json()["suites"]
            return any(backend["available"] for backend in suite["backends"])

        until(is_available, within_s=30, what="the backend is available")


def lines(up: Up, run_id: str) -> dict[str, list[str]]:
    """What the steps printed."""
    answer = up.partita("run", "logs", run_id, "-o", "json")
    assert answer.returncode == 0, answer.stderr
    found: dict[str, list[str]] = {}
    for text in answer.stdout.splitlines():
        record = json.loads(text)
        line = record.get("line", record)
        if line["kind"] == "output":
            found.setdefault(line["source"], []).append(line["text"])
    return found


def test_a_suite_that_exists_only_in_a_registry_runs(up: Up, registry: TestRegistry):
    reference = f"{registry.repository('distant')}:1"

    answer = up.partita("run", "launch", reference, "--watch", "-o", "json")

    assert answer.stdout, answer.stderr
    run = json.loads(answer.stdout)
    assert run["status"] == "Healthy", answer.stderr
    assert run["suiteId"] == f"{registry.folder}-distant"
    assert lines(up, run["id"])["second"][0] == "from the registry, version 1"


def test_two_versions_are_imported_by_a_lock_and_each_has_its_own_files(
    up: Up, registry: TestRegistry
):
    locked_parent(up, registry, "parent")

    answer = up.partita("run", "launch", "parent", "--watch", "-o", "json")

    assert answer.stdout, answer.stderr
    run = json.loads(answer.stdout)
    assert run["status"] == "Healthy", answer.stderr
    printed = lines(up, run["id"])
    assert printed["old/first"] == ["from the registry, version 1", "eu"]
    assert printed["new/second"] == ["from the registry, version 2", "us"]
    assert printed["last"] == ["done"]


def test_a_digest_that_is_not_the_locked_one_refuses_the_launch(up: Up, registry: TestRegistry):
    lock = locked_parent(up, registry, "tampered") / "dependencies.lock.yaml"
    digest = lock.read_text().partition("digest: sha256:")[2][:64]
    lock.write_text(lock.read_text().replace(digest, "0" * 64))

    answer = up.partita("run", "launch", "tampered")

    assert answer.returncode == 1
    assert "0000000" in answer.stderr
    assert "topology_invalid" in answer.stderr


def locked_parent(up: Up, registry: TestRegistry, name: str) -> Path:
    folder = Path(up.environment["SUITES_DIR"]) / name
    repository = registry.repository("distant")
    declared = PARENT["dependencies.yaml"].format(repository=repository)
    write_files(folder, {**PARENT, "dependencies.yaml": declared})
    locked = up.manage("suite", "lock", name)
    assert locked.returncode == 0, locked.stderr
    return folder
