"""The pod, Secrets and Service of a launch."""

from __future__ import annotations

import base64
import io
import json
import re
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernel.pull_credentials import PullCredentials
from tests.support import steps
from worker.domain.launch import LaunchRules, launch_of
from worker.domain.runtime import CONTAINER_FOLDERS, Launch
from worker.domain.step_spec import parse_step_spec
from worker.runtimes.kubernetes import pod_scripts, pod_spec
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


def as_the_kubelet_expands(text: str) -> str:
    """Do as Kubernetes does with command and args; HOME is the only variable."""
    return re.sub(r"\$\$|\$\(HOME\)", lambda found: "$" if found[0] == "$$" else "/root", text)


@pytest.mark.parametrize("word", ["$(HOME)", "$$", "$$(HOME)", "kill $$; echo $?", "$", "$((1+1))"])
def test_a_dollar_reaches_the_program_as_it_is_written(word: str) -> None:
    argument = step(launch(node={"command": ["echo", word]}))["args"][1]
    commands = step(launch(node={"commands": [word]}))["command"]

    assert as_the_kubelet_expands(argument) == word
    assert as_the_kubelet_expands(commands[-1]) == word


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    """The directories of a pod under a folder, with files of a suite to fill them."""
    for name in ("archive", "marks", "claim-state", "workspace", "step", "artifacts"):
        (tmp_path / "partita" / name).mkdir(parents=True)
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name in ("workspace/hello.txt", "step/hello.txt", "artifacts/.keep"):
            info = tarfile.TarInfo(f"partita/{name}")
            info.size = 5
            archive.addfile(info, io.BytesIO(b"hello"))
    (tmp_path / "partita/archive/files.tgz").write_bytes(made.getvalue())
    return tmp_path


def fill(claim: Path, *, still: int = 3) -> subprocess.Popen[bytes]:
    """Run the script of the init container with the directories of the folder."""
    rules = replace(RULES, claim="shared")
    extras = PodExtras(hosts={}, has_files=True)
    made: Any = pod_spec.pod(launch(node={"command": ["true"]}), rules, extras)
    command = [
        as_the_kubelet_expands(each) for each in made["spec"]["initContainers"][0]["command"]
    ]
    script = command[2].replace("/partita", f"{claim}/partita").replace("-C /", f"-C {claim}")
    script = script.replace(f"-ge {pod_scripts._STILL_TRIES}", f"-ge {still}")
    return subprocess.Popen([*command[:2], script, *command[3:]])


def test_many_pods_fill_the_directory_of_a_claim_once(claim: Path) -> None:
    started = [fill(claim, still=50) for _ in range(4)]

    assert [each.wait(20) for each in started] == [0, 0, 0, 0]
    assert (claim / "partita/workspace/hello.txt").read_text() == "hello"
    assert [each.name for each in (claim / "partita/claim-state").glob("lock*")] == ["lock.1"]


def test_the_lock_of_a_filler_that_died_is_taken_over(claim: Path) -> None:
    lock = claim / "partita/claim-state/lock.1"
    lock.mkdir()
    (lock / "beat").write_text("1")

    assert fill(claim).wait(20) == 0
    assert (claim / "partita/workspace/hello.txt").read_text() == "hello"


def test_a_filler_that_is_slow_keeps_its_lock(claim: Path) -> None:
    lock = claim / "partita/claim-state/lock.1"
    lock.mkdir()
    waiting = fill(claim, still=20)
    for beat in range(8):
        (lock / "beat").write_text(str(beat))
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.5)

    (claim / "partita/claim-state/filled").touch()

    assert waiting.wait(20) == 0
    assert not (claim / "partita/workspace/hello.txt").exists()


def test_scripts_of_the_platform_keep_their_dollars() -> None:
    spec = pod(launch(node={"command": ["true"]}))["spec"]

    script = spec["initContainers"][0]["command"][2]

    assert as_the_kubelet_expands(script) == pod_scripts.FILL


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


def test_a_gate_replaces_the_program_and_gets_a_static_busybox() -> None:
    made = launch(node={"commands": ["echo $X"]})
    words = pod_spec.program_words(made.program)
    cold = pod(made)["spec"]["containers"][0]
    extras = PodExtras(hosts={}, gate=("/partita/tools/busybox", "sh", *words), secrets="other")

    gated: Any = pod_spec.pod(made, RULES, extras)

    step = gated["spec"]["containers"][0]
    assert gated["metadata"]["annotations"]["partita.gate"] == "true"
    assert step["command"] == ["/partita/tools/busybox", "sh", *cold["command"]]
    assert (step["stdin"], step["stdinOnce"]) == (True, True)
    assert "args" not in step
    assert step["envFrom"] == [{"secretRef": {"name": "other-env"}}]
    tools = {"name": "tools", "mountPath": "/partita/tools"}
    others = gated["spec"]["initContainers"][0], gated["spec"]["containers"][1]
    assert all(tools in each["volumeMounts"] for each in (step, *others))
    assert "stdin" not in cold


def test_the_program_of_an_image_alone_is_not_known() -> None:
    assert pod_spec.program_words(launch(node={"command": ["true"]}).program) == ()
