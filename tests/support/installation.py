"""Partita in a real cluster: the manifests with the stores, applied by kubectl or rendered by helm.

The nodes need the image of Partita; the volumes are folders of this host, which is the only node.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from tests.support import images
from tests.support.cluster_commands import kubectl
from tests.support.kubernetes.cluster import SOCKET, import_from_docker
from tests.support.manifests import CHART, STORES, need_program
from tests.support.parts import need, need_cluster
from tests.support.processes import until

POSTGRES: Final = ("partita/postgres", "15")  # of examples/images
CLAIM: Final = "partita-shared"
_SLOW: Final = httpx.Timeout(30)
START_S: Final = 600  # two stores, a migration and four processes of ours on two busy cores
_VOLUMES: Final = (  # folder, owner, claim, mode
    ("postgres", 70, "data-partita-postgres-0", "ReadWriteOnce"),
    ("redis", 999, "data-partita-redis-0", "ReadWriteOnce"),
    ("shared", 0, CLAIM, "ReadWriteMany"),
)


def need_images() -> None:
    """Build the images and give them to our own cluster; of another one, its nodes must have them.

    Without them the test is skipped.
    """
    socket = Path(need_cluster()).parent / SOCKET
    if socket.exists():
        needed = [images.partita_image(), images.image(":".join(POSTGRES))]
        import_from_docker(socket, need("TEST_DOCKER_HOST", "a Docker engine"), needed)
        return
    nodes = json.loads(kubectl("get", "nodes", "--output", "json"))["items"]
    known = " ".join(
        name
        for node in nodes
        for image in node["status"].get("images", ())
        for name in image.get("names") or ()
    )
    for image in (images.PARTITA, ":".join(POSTGRES)):
        if image not in known:
            pytest.skip(f"needs the image {image} on the nodes of the cluster")


class Installation:
    """One installation in a namespace of its own; `client` is signed in as its administrator."""

    def __init__(self, folder: Path) -> None:
        self.namespace = f"partita-installed-{secrets.token_hex(3)}"
        self._folder = folder

    def kubectl(self, *words: str, text: str = "") -> str:
        return kubectl("--namespace", self.namespace, *words, text=text)

    def prepare(self) -> None:
        """Make what exists before: namespace, Secret, volumes and their claims.

        Those of the stores have the names that their StatefulSets give. All are bound at the end:
        the scheduler may leave a pod for minutes that it saw before its claim was bound.
        """
        kubectl("create", "namespace", self.namespace)
        level = "pod-security.kubernetes.io/enforce=baseline"
        kubectl("label", "namespace", self.namespace, level)
        self.kubectl("create", "secret", "generic", "partita", *self._secret_values())
        for name, owner, claim, mode in _VOLUMES:
            self._make_volume(name, owner, claim, mode)
            self._make_claim(claim, mode)
        bound = "--for=jsonpath={.status.phase}=Bound"
        self.kubectl("wait", bound, "persistentvolumeclaim", "--all", "--timeout=60s")

    def _secret_values(self) -> list[str]:
        password = secrets.token_hex(24)
        values = {
            "jwt-secret": secrets.token_hex(32),
            "admin-password": secrets.token_hex(12),
            "postgres-password": password,
            "postgres-dsn": f"postgresql://partita:{password}@partita-postgres/partita",
            "redis-password": secrets.token_hex(24),
        }
        self.password = values["admin-password"]
        return [f"--from-literal={name}={value}" for name, value in values.items()]

    def _make_volume(self, name: str, owner: int, claim: str, mode: str) -> None:
        folder = self._folder / name
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        os.chown(folder, owner, owner)
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"{self.namespace}-{name}"},
            "spec": {
                "capacity": {"storage": "10Gi"},
                "accessModes": [mode],
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": str(folder)},
                "claimRef": {"namespace": self.namespace, "name": claim},
            },
        }
        kubectl("apply", "-f", "-", text=json.dumps(volume))

    def _make_claim(self, name: str, mode: str) -> None:
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}},
        }
        self.kubectl("apply", "-f", "-", text=json.dumps(claim))

    def apply_kustomization(self) -> None:
        overlay = self._folder / "overlay"
        overlay.mkdir()
        image, tag = POSTGRES
        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "namespace": self.namespace,
            "resources": [os.path.relpath(STORES, overlay.resolve())],
            "images": [{"name": "postgres", "newName": image, "newTag": tag}],
            "configMapGenerator": [
                {
                    "name": "partita",
                    "behavior": "merge",
                    "literals": [f"PARTITA_CONFIG_SHARED_CLAIM={CLAIM}"],
                }
            ],
        }
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        self.kubectl("apply", "-k", str(overlay))

    def apply_chart(self) -> None:
        command = [need_program("helm"), "template", "partita", str(CHART)]
        values = {
            "stores.enabled": "true",
            "stores.postgres.image": ":".join(POSTGRES),
            "sharedClaim": CLAIM,
        }
        for name, value in values.items():
            command += ["--set", f"{name}={value}"]
        command += ["--namespace", self.namespace]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        self.kubectl("apply", "-f", "-", text=done.stdout)

    def wait_ready(self) -> None:
        for name in ("statefulset/partita-runner", "deployment/partita-web",
                     "deployment/partita-celery"):  # fmt: skip
            try:
                self.kubectl("rollout", "status", name, f"--timeout={START_S}s")
            except AssertionError as error:
                raise AssertionError(f"{error}\n{self.account()}") from None

    def account(self) -> str:
        """Return what the pods and the last events say."""
        pods = self.kubectl("get", "pods", "--output", "wide")
        events = self.kubectl("get", "events", "--sort-by=.lastTimestamp").splitlines()[-15:]
        logs = []
        for name in ("partita-web", "partita-runner", "partita-celery"):
            kind = "statefulset" if name == "partita-runner" else "deployment"
            with contextlib.suppress(AssertionError):
                logs.append(self.kubectl("logs", f"{kind}/{name}", "--tail=15"))
        return "\n".join([pods, *events, *logs])

    @contextmanager
    def client(self) -> Iterator[httpx.Client]:
        """Reach the pages as the guide says, by a forwarded port."""
        command = [need_program("kubectl"), "--kubeconfig", need_cluster()]
        command += ["--namespace", self.namespace, "port-forward", "service/partita-web", ":8090"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forward:
            try:
                assert forward.stdout is not None
                said = forward.stdout.readline()  # Forwarding from 127.0.0.1:41234 -> 8090
                assert said.startswith("Forwarding"), self.account()
                url = f"http://{said.split()[2]}"
                headers = {"Authorization": f"Bearer {self._sign_in(url)}"}
                address = f"{url}/api/v1"
                with httpx.Client(base_url=address, headers=headers, timeout=_SLOW) as made:
                    yield made
            finally:
                forward.terminate()

    def _sign_in(self, url: str) -> str:
        """Return a token; web makes the first account up to 10 s after the store's migration."""
        body = {"email": "admin@partita.local", "password": self.password}

        def sign_in() -> str | None:
            answer = httpx.post(f"{url}/api/v1/auth/sign-in", json=body, timeout=_SLOW)
            return str(answer.json()["token"]) if answer.status_code == 200 else None

        return until(sign_in, within_s=120, what="the administrator signs in", each_s=4)

    def wait_for_readiness(self, client: httpx.Client) -> None:
        """Return once `/readyz` says ready: on a busy node a probe of a subsystem may be late."""

        def is_ready() -> bool:
            return bool(client.get("/system/readyz").json()["status"] == "ready")

        until(
            is_ready,
            within_s=60,
            what=lambda: f"ready: {client.get('/system/readyz').text}",
            each_s=2,
        )

    def restarts(self) -> dict[str, int]:
        """Return how often a container of a pod was started again, where it was."""
        pods = json.loads(self.kubectl("get", "pods", "--output", "json"))["items"]
        return {
            pod["metadata"]["name"]: status["restartCount"]
            for pod in pods
            for status in pod["status"].get("containerStatuses", ())
            if status["restartCount"]
        }

    def run(self, client: httpx.Client, suite: str) -> dict[str, Any]:
        """Launch a suite, and return the run at its end."""

        def launch() -> str | None:
            answer = client.post("/executions", json={"suiteId": suite})
            if answer.status_code == 503:  # the runner has not registered yet
                return None
            assert answer.status_code == 201, answer.text
            return str(answer.json()["id"])

        def ended() -> dict[str, Any] | None:
            found: dict[str, Any] = client.get(f"/executions/{run_id}").json()
            return found if found["status"] in ("Healthy", "Failed", "Canceled") else None

        run_id = until(launch, within_s=180, what=lambda: f"a backend\n{self.account()}", each_s=1)
        return until(ended, within_s=480, what=lambda: f"the end\n{self.account()}", each_s=1)

    def remove(self) -> None:
        kubectl("delete", "namespace", self.namespace, "--ignore-not-found", "--timeout=300s")
        names = [f"{self.namespace}-{name}" for name, *_ in _VOLUMES]
        kubectl("delete", "persistentvolume", "--ignore-not-found", "--timeout=60s", *names)
