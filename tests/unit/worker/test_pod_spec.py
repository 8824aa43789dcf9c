"""The pod, Secrets and Service of a launch."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support import steps
from worker.domain.launch import LaunchRules, launch_of
from worker.domain.runtime import CONTAINER_FOLDERS, Launch, PullCredentials
from worker.domain.step_spec import parse_step_spec
from worker.runtimes.kubernetes import pod_spec
from worker.runtimes.kubernetes.pod_spec import NameRefused, PodExtras, PodRules

RULES = PodRules(helper_image="busybox:1.36")


async def no_files() -> bytes:
    return b""


def launch(node_id: str = "api", **changes: Any) -> Launch:
    return launch_of(
        parse_step_spec(steps.claim("run-0123456789ab", node_id, **changes)),
        LaunchRules(),
        steps.owner(),
        folders=lambda name, workspace: CONTAINER_FOLDERS,
        fetch=no_files,
        started_at="2026-01-02T03:04:05.123Z",
    )


def pod(made: Launch, **extras: Any) -> Any:
    hosts = extras.pop("hosts", {})
    return pod_spec.pod(made, RULES, PodExtras(hosts=hosts, **extras))


def step(made: Launch) -> Any:
    return pod(made)["spec"]["containers"][0]


def test_a_task_has_no_capabilities_and_no_token_of_the_cluster() -> None:
    made = pod(launch(node={"command": ["true"]}))

    spec, container = made["spec"], made["spec"]["containers"][0]
    assert spec["automountServiceAccountToken"] is False
    assert spec["restartPolicy"] == "Never"
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert not any("hostPath" in volume for volume in spec["volumes"])


def test_a_service_keeps_the_capabilities_that_images_of_databases_need() -> None:
    container = step(launch(node={"kind": "service", "ports": ["5432"]}))

    assert container["securityContext"] == {"allowPrivilegeEscalation": False}
    assert container["ports"] == [{"containerPort": 5432, "protocol": "TCP"}]


def test_labels_select_and_annotations_tell_the_whole_truth() -> None:
    made = launch(
        "pay/API gateway", owner="Ann Example <ann@example.com>", node={"commands": ["x"]}
    )

    about = pod(made)["metadata"]

    assert about["annotations"]["partita.step"] == "pay/API gateway"
    assert about["annotations"]["partita.owner"] == "Ann Example <ann@example.com>"
    assert about["labels"]["partita.run_id"] == "run-0123456789ab"
    assert about["labels"]["partita.step"].startswith("pay-api-gateway-")
    assert all(len(value) <= 63 for value in about["labels"].values())


@pytest.mark.parametrize("text", ["a/b", "a b", "-a", "x" * 64, "ü"])
def test_texts_that_no_label_may_have_become_ones_that_differ(text: str) -> None:
    made = pod_spec.label_value(text)

    assert pod_spec.label_value(made) == made
    assert made != pod_spec.label_value(f"{text}2")


def test_limits_are_the_launchs_and_requests_a_share_of_them() -> None:
    container = step(launch(node={"resources": {"cpu": 2, "memory": "1Gi"}}))

    assert container["resources"] == {
        "limits": {"cpu": "2000m", "memory": str(2**30)},
        "requests": {"cpu": "200m", "memory": str(2**28)},
    }


def test_commands_start_in_the_images_directory_or_else_in_that_of_the_step() -> None:
    container = step(launch(node={"commands": ["pwd"]}))

    assert container["command"][:2] == ["sh", "-c"]
    assert container["command"][4:] == ["sh", "-e", "-c", "pwd"]
    assert "cd /partita/step" in container["command"][2]
    assert "workingDir" not in container


def test_a_file_starts_in_the_directory_of_the_step() -> None:
    container = step(launch(node={"file": "tasks/hello.sh"}))

    assert container["command"] == ["sh", "tasks/hello.sh"]
    assert container["workingDir"] == "/partita/step"


def test_an_argument_that_looks_like_a_variable_stays_as_it_is() -> None:
    container = step(launch(node={"command": ["echo", "$(HOME) $$"]}))

    assert container["args"] == ["echo", "$$(HOME) $$"]


def test_variables_are_in_a_secret_and_not_in_the_pod() -> None:
    made = launch(env={"TOKEN": "hidden-word"}, node={"command": ["true"]})

    secret: Any = pod_spec.environment_secret(made)

    assert "hidden-word" not in json.dumps(pod(made))
    assert base64.b64decode(secret["data"]["TOKEN"]) == b"hidden-word"
    assert step(made)["envFrom"] == [{"secretRef": {"name": secret["metadata"]["name"]}}]


def test_a_variable_with_a_name_that_no_secret_can_hold_is_refused() -> None:
    made = replace(launch(node={"command": ["true"]}), environment={"A B": "1"})

    with pytest.raises(NameRefused, match="the variable 'A B' cannot be set on Kubernetes"):
        pod_spec.environment_secret(made)


def test_credentials_of_a_registry_are_a_pull_secret() -> None:
    known = PullCredentials(host="registry.example", username="ann", secret="word")
    made = launch(node={"command": ["true"]})

    secret: Any = pod_spec.pull_secret(made, known)

    document = json.loads(base64.b64decode(secret["data"][".dockerconfigjson"]))
    auth = document["auths"]["registry.example"]["auth"]
    assert base64.b64decode(auth) == b"ann:word"
    names = pod(made, has_pull_secret=True)["spec"]["imagePullSecrets"]
    assert names == [{"name": secret["metadata"]["name"]}]


def test_names_of_other_units_are_host_aliases_and_names_that_dns_forbids_are_left_out() -> None:
    hosts = {"db": "10.0.0.4", "db-main": "10.0.0.4", "no_dns": "10.0.0.4", "web": "10.0.0.5"}

    aliases = pod(launch(node={"command": ["true"]}), hosts=hosts)["spec"]["hostAliases"]

    assert aliases == [
        {"ip": "10.0.0.4", "hostnames": ["db", "db-main"]},
        {"ip": "10.0.0.5", "hostnames": ["web"]},
    ]


def test_files_that_are_too_large_for_a_secret_come_by_exec() -> None:
    made = launch(node={"command": ["true"]})

    volumes = {each["name"]: each for each in pod(made, is_fed=True)["spec"]["volumes"]}

    assert volumes["archive"] == {"name": "archive", "emptyDir": {}}


def test_the_service_of_a_node_outlives_an_attempt() -> None:
    made = launch(node={"kind": "service", "ports": ["5432", "53/udp"]}, attempt=2)

    body: Any = pod_spec.service(made)

    assert "partita.attempt" not in body["spec"]["selector"]
    assert [(each["port"], each["protocol"]) for each in body["spec"]["ports"]] == [
        (5432, "TCP"),
        (53, "UDP"),
    ]
