"""The first examples as pods of a real cluster, by a backend of type `kubernetes`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import parts
from tests.support.cluster_commands import kubectl
from tests.support.processes import ROOT, until
from tests.support.up import Up

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
BACKEND = "cluster"


VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: partita-tests}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  storageClassName: partita-tests
  hostPath: {path: FOLDER}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: partita-tests, namespace: default}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: partita-tests
  resources: {requests: {storage: 1Gi}}
"""


def objects_of(run_id: str) -> str:
    return kubectl("get", "pods,services,secrets", "-l", f"partita.run_id={run_id}", "-o", "name")


@pytest.fixture
def claim(tmp_path: Path) -> Iterator[str]:
    """A claim of a folder of this host, which is the only node."""
    folder = tmp_path / "shared"
    folder.mkdir()
    text = VOLUME.replace("FOLDER", str(folder))
    kubectl("apply", "-f", "-", text=text)
    try:
        yield "partita-tests"
    finally:
        kubectl("delete", "--timeout=60s", "-f", "-", text=text)


@pytest.fixture
def up(tmp_path: Path, claim: str) -> Iterator[Up]:
    folder = tmp_path / "up"
    backend = {
        "agentId": BACKEND,
        "name": "Cluster",
        "type": "kubernetes",
        "default": True,
        "kubeconfigPath": parts.need_cluster(),
        "sharedClaim": claim,
    }
    made = Up(
        folder,
        UP_DEMO="0",
        LOCAL_RUNTIME="process",
        HOST="0.0.0.0",
        SUITES_DIR=str(ROOT / "examples" / "oci-suites"),
        PLATFORM_SETTINGS_FILE=str(folder / "configuration.yaml"),
    )
    (folder / "configuration.yaml").write_text(json.dumps({"agents": [backend]}))
    yield made
    made.end()


@pytest.mark.parametrize("suite", ["hello", "shop", "composite"])
def test_an_example_runs_on_a_cluster_unchanged(up: Up, suite: str, tmp_path: Path) -> None:
    up.start()
    with up.client() as client:
        answer = client.post("/executions", json={"suiteId": suite, "backend": BACKEND})
    assert answer.status_code == 201, answer.text

    run = up.wait_for(answer.json()["id"], within_s=240)

    failed = [
        f"{step['id']}: {step.get('reason')}: {step.get('detail')}"
        for step in run["steps"]
        if step["status"] not in ("healthy", "skipped")
    ]
    assert run["status"] == "Healthy", "\n".join(failed)
    assert run["backendKind"] == "kubernetes"
    until(
        lambda: not list((tmp_path / "shared").iterdir()) and not objects_of(run["id"]),
        within_s=60,
        what=lambda: f"the run left nothing: {objects_of(run['id'])}",
    )
