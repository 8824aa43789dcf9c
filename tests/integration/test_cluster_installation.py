"""Partita in a real cluster, installed as the guide says: healthy, and a run of `hello` in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import installation
from tests.support.installation import Installation
from tests.support.processes import until
from worker.runtimes.kubernetes.rights import RIGHTS

# the image is built before the first test; on two busy cores an installation takes minutes
pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def image() -> None:
    installation.need_images()


@pytest.fixture
def installed(image: None, tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path / "volumes")
    try:
        made.prepare()
        yield made
    finally:
        made.remove()


@pytest.mark.parametrize("way", ["kustomize", "helm"])
def test_partita_comes_up_healthy_and_runs_hello(installed: Installation, way: str) -> None:
    apply = {"kustomize": installed.apply_kustomization, "helm": installed.apply_chart}[way]
    apply()
    installed.wait_ready()

    checked = installed.kubectl("exec", "partita-runner-0", "--", "partita", "check_cluster")
    assert f"{len(RIGHTS)} of {len(RIGHTS)}" in checked
    assert "missing" not in checked
    with installed.client() as client:
        installed.wait_for_readiness(client)
        run = installed.run(client, "hello")

    steps = {step["id"]: (step["status"], step.get("detail")) for step in run["steps"]}
    assert run["status"] == "Healthy", (steps, installed.account())
    assert run["backendKind"] == "kubernetes"
    until(
        lambda: not installed.kubectl("get", "pods", "-l", "partita.managed=true", "-o", "name"),
        within_s=120,
        what="the run left no pod",
        each_s=1,
    )
    assert installed.restarts() == {}, installed.account()  # no probe gave up a process that lived
