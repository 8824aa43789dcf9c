"""What `check_cluster` finds, on a scripted API server (reference: control-plane 14.3)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.cluster_api import refusal
from worker.domain.cluster_options import ClusterOptions
from worker.domain.runtime import RuntimeOptions
from worker.runtimes.kubernetes import client, cluster_check
from worker.runtimes.kubernetes.cluster_check import Check, check_cluster
from worker.runtimes.kubernetes.rights import RIGHTS

PODS = "/api/v1/namespaces/apps/pods"
CLAIM = "/api/v1/namespaces/apps/persistentvolumeclaims/shared"
Object = dict[str, Any]


@dataclass
class Cluster:
    """A cluster where all is well, but for what a test changes.

    `denied`: rights that the account lacks. `answers`: path → what a request of it gets.
    `pods`: the statuses of a started pod, one for each look.
    """

    denied: set[str] = field(default_factory=set)
    answers: dict[str, httpx.Response] = field(default_factory=dict)
    pods: list[Object] = field(default_factory=list)
    created: list[Object] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

    async def checks(self, *, claim: str = "", pulls: tuple[str, ...] = ()) -> list[Check]:
        cluster = ClusterOptions(server="http://cluster", namespace="apps", claim=claim)
        options = RuntimeOptions(state_dir=Path("/none"), installation_id="", cluster=cluster)
        transport = httpx.MockTransport(self.respond)
        found = check_cluster(options, pulls=pulls, pull_s=0.2, transport=transport)
        return [each async for each in found]

    async def respond(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path in self.answers:
            return self.answers[path]
        if path.startswith(PODS):
            return self._pod(request)
        return httpx.Response(200, json=self._object(path, request))

    def _object(self, path: str, request: httpx.Request) -> Object:
        if path == "/version":
            return {"gitVersion": "v1.34.4"}
        if path.endswith("/selfsubjectreviews"):
            return {"status": {"userInfo": {"username": "system:serviceaccount:apps:runner"}}}
        if path.endswith("/selfsubjectaccessreviews"):
            asked = json.loads(request.content)["spec"]["resourceAttributes"]
            assert asked["namespace"] == "apps"
            resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
            return {"status": {"allowed": f"{asked['verb']} {resource}" not in self.denied}}
        if path == CLAIM:
            return claim_of("Bound", "ReadWriteMany")
        assert path == "/api/v1/namespaces/apps"
        labels = {"pod-security.kubernetes.io/enforce": "baseline"}
        return {"metadata": {"name": "apps", "labels": labels}}

    def _pod(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            body = json.loads(request.content)
            if request.url.params.get("dryRun") != "All":
                self.created.append(body)
            return httpx.Response(201, json=body)
        name = request.url.path.rpartition("/")[2]
        if request.method == "DELETE":
            self.deleted.append(name)
            return httpx.Response(200, json={})
        status = self.pods.pop(0) if len(self.pods) > 1 else self.pods[0]
        return httpx.Response(200, json={"metadata": {"name": name}, "status": status})


def claim_of(phase: str, mode: str) -> Object:
    return {"spec": {"accessModes": [mode]}, "status": {"phase": phase}}


def forbidden(message: str = "forbidden") -> httpx.Response:
    return refusal(403, "Forbidden", message)


def waiting(reason: str, message: str = "") -> Object:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "step", "state": state}]}


def problems(checks: list[Check]) -> list[tuple[str, str, str]]:
    return [(each.name, each.state, each.subject) for each in checks if each.state != "ok"]


def detail(checks: list[Check], name: str) -> str:
    (found,) = [each.detail for each in checks if each.name == name and each.state != "ok"]
    return found


async def test_a_cluster_that_lacks_nothing_has_only_checks_that_are_ok():
    checks = await Cluster().checks(claim="shared")

    assert problems(checks) == []
    names = [each.name for each in checks if each.name != "right"]
    assert names == ["api", "account", "namespace", "pod-security", "pod", "claim"]
    assert [each.subject for each in checks if each.name == "right"] == [str(r) for r in RIGHTS]


@pytest.mark.parametrize("right", [str(each) for each in RIGHTS if str(each) != "create pods"])
async def test_each_right_that_is_missing_is_named(right):
    checks = await Cluster(denied={right}).checks()

    assert problems(checks) == [("right", "missing", right)]
    assert detail(checks, "right") == f"the account may not {right} in apps: add it to its Role"


async def test_without_the_right_to_create_pods_no_pod_is_tried():
    cluster = Cluster(denied={"create pods"})

    checks = await cluster.checks(pulls=("busybox:1.36",))

    assert problems(checks) == [
        ("right", "missing", "create pods"),
        ("pod", "unknown", "of a step"),
    ]
    assert cluster.created == []


async def test_a_namespace_that_does_not_exist_is_said_with_the_command_that_makes_it():
    gone = refusal(404, "NotFound", 'namespaces "apps" not found')
    checks = await Cluster(answers={"/api/v1/namespaces/apps": gone, PODS: gone}).checks()

    assert ("namespace", "missing", "apps") in problems(checks)
    assert detail(checks, "namespace").endswith("kubectl create namespace apps")


async def test_an_account_that_may_not_read_namespaces_and_claims_lacks_nothing():
    answers = {"/api/v1/namespaces/apps": forbidden(), CLAIM: forbidden()}
    checks = await Cluster(answers=answers).checks(claim="shared")

    assert problems(checks) == [("namespace", "unknown", "apps"), ("claim", "unknown", "shared")]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            'pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot',
            "label the namespace pod-security.kubernetes.io/enforce=baseline",
        ),
        ('pods "x" is forbidden: exceeded quota: small, requested: pods=1', "quota is used up"),
        (
            'pods "x" is forbidden: maximum memory usage per Container is 128Mi, not 512Mi',
            "maximum memory usage per Container is 128Mi",
        ),
        (
            'admission webhook "guard.example" denied the request: no busybox here',
            "the admission webhook guard.example refused the pod: no busybox here",
        ),
    ],
)
async def test_what_would_refuse_the_pod_of_a_step_is_said_in_the_clusters_words(words, expected):
    cluster = Cluster(answers={PODS: forbidden(words)})

    checks = await cluster.checks()

    assert problems(checks) == [("pod", "missing", "of a step")]
    assert expected in detail(checks, "pod")


async def test_a_namespace_with_the_level_restricted_is_not_enough():
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    found = httpx.Response(200, json={"metadata": {"name": "apps", "labels": labels}})

    checks = await Cluster(answers={"/api/v1/namespaces/apps": found}).checks()

    assert problems(checks) == [("pod-security", "missing", "restricted")]


@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [
        (refusal(404, "NotFound", "not found"), "missing", "no claim of this name in apps"),
        (httpx.Response(200, json=claim_of("Bound", "ReadWriteOnce")), "missing", "ReadWriteMany"),
        (httpx.Response(200, json=claim_of("Lost", "ReadWriteMany")), "missing", "Lost"),
        (httpx.Response(200, json=claim_of("Pending", "ReadWriteMany")), "unknown", "first pod"),
    ],
)
async def test_a_claim_that_steps_could_not_use_is_said(answer, state, words):
    checks = await Cluster(answers={CLAIM: answer}).checks(claim="shared")

    assert problems(checks) == [("claim", state, "shared")]
    assert words in detail(checks, "claim")


async def test_an_image_that_is_there_is_ok_and_its_pod_is_removed():
    ended = {"terminated": {"exitCode": 0}}
    cluster = Cluster(pods=[{"containerStatuses": [{"name": "step", "state": ended}]}])

    checks = await cluster.checks(pulls=("busybox:1.36",))

    assert problems(checks) == []
    (pod,) = cluster.created
    assert pod["spec"]["containers"][0]["image"] == "busybox:1.36"
    assert cluster.deleted == [pod["metadata"]["name"]]


async def test_an_image_without_the_program_that_the_check_runs_was_pulled_all_the_same():
    cluster = Cluster(pods=[waiting("RunContainerError", "no such file: true")])

    assert problems(await cluster.checks(pulls=("scratch:1",))) == []


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (waiting("ImagePullBackOff", "not found"), "could not be pulled: not found"),
        (waiting("ErrImagePull", "timeout"), "could not be pulled: timeout"),
        ({"phase": "Pending"}, "the image was not there within 0.2 s"),
    ],
)
async def test_an_image_that_does_not_come_is_said_and_its_pod_is_removed(
    status, words, monkeypatch
):
    monkeypatch.setattr(cluster_check, "_LOOK_EVERY_S", 0.01)
    cluster = Cluster(pods=[status])

    checks = await cluster.checks(pulls=("missing:1",))

    assert problems(checks) == [("pull", "missing", "missing:1")]
    assert words in detail(checks, "pull")
    assert len(cluster.deleted) == 1


async def test_an_api_server_that_does_not_answer_ends_the_checks(monkeypatch):
    monkeypatch.setattr(cluster_check, "_ANSWER_S", 0.0)
    monkeypatch.setattr(client, "_PAUSES_S", (0.01,))
    refused = refusal(401, "Unauthorized", "Unauthorized")

    checks = await Cluster(answers={"/version": refused}).checks()

    assert problems(checks) == [("api", "missing", "http://cluster")]
    assert len(checks) == 1
    assert detail(checks, "api").startswith("the API server refuses the token: set a new one")


async def test_a_kubeconfig_that_cannot_be_read_is_the_only_check(tmp_path):
    cluster = ClusterOptions(kubeconfig=str(tmp_path / "absent"))
    options = RuntimeOptions(state_dir=tmp_path, installation_id="", cluster=cluster)

    checks = [each async for each in check_cluster(options)]

    assert problems(checks) == [("access", "missing", "")]
    assert "the kubeconfig" in detail(checks, "access")
