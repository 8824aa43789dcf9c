"""The objects that run a launch: its pod, Secrets and Service (reference: control-plane 14.3).

A pod has an init container that fills the directories, the step's container, and the keeper. The
keeper holds the directories until the pod is removed: programs can be run in it after the step has
ended, which a container that has ended does not allow. The containers share their process ids, so
that a step's program is not process 1, which would ignore SIGTERM, and the keeper can signal it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kernel.ids import shorten, slug
from kernel.pull_credentials import PullCredentials
from worker.domain import ownership
from worker.domain.runtime import (
    ARTIFACTS,
    STEP_DIRECTORY,
    TOOLS,
    WORKSPACE,
    Launch,
    UnitProgram,
)
from worker.runtimes.kubernetes.objects import FILLER, KEEPER, STEP_CONTAINER
from worker.runtimes.kubernetes.pod_scripts import (
    ARCHIVE,
    ARCHIVE_KEY,
    CLAIM_STATE,
    FILL,
    IN_STEP,
    KEEP,
    MARKS,
)

Body = dict[str, object]
CHANGES_KEY: Final = "changes.tgz"
# What a step requests of its limits: most use less, and a suite must fit on small nodes.
_CPU_REQUESTED: Final = 0.1
_MEMORY_REQUESTED: Final = 0.25
_GRACE_S: Final = 30  # as Kubernetes has it; an added keeper has it to take files (pod_keepers)
SECRET_LIMIT: Final = 1_000_000  # bytes of one Secret; the API server's own limit is 1 MiB
NETWORKS: Final = "partita.networks"  # annotation: network → names there, as JSON
WORKSPACE_NAME: Final = "partita.shared_directory"
ROLE: Final = "partita.role"  # of Secrets: env, files, pull, changes, directory
CHANGES: Final = "changes"
DIRECTORY: Final = "directory"
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
_HOST_NAME: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z"
)
_SECRET_KEY: Final = re.compile(r"[-._A-Za-z0-9]{1,253}\Z")
_SELECTED: Final = (
    ownership.MANAGED,
    ownership.INSTALLATION,
    ownership.RUN_ID,
    ownership.ORCHESTRATOR,
    ownership.STEP,
    ownership.STEP_KIND,
    ownership.ATTEMPT,
    ROLE,
    WORKSPACE_NAME,
)


class NameRefused(ValueError):
    """An environment variable has a name that a Secret cannot hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRules:
    """The settings of the pods of a backend.

    `claim`: of a volume that all nodes mount for reading and writing, for shared directories.
    """

    helper_image: str
    pull_policy: str = "IfNotPresent"
    claim: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodExtras:
    """What the pod of a launch gets beside it.

    `hosts`: name → address. `has_files`: the suite has some for the shared directory.
    `is_fed`: the archive comes by exec, because it is too large for a Secret. `gate`: what the
    container starts instead of its program, if it is started ahead. `secrets`: the first part of
    the names of its Secrets, by default the name of the pod.
    """

    hosts: Mapping[str, str]
    has_files: bool = False
    is_fed: bool = False
    has_pull_secret: bool = False
    gate: Sequence[str] = ()
    secrets: str = ""


def label_value(text: str) -> str:
    """Return the text if it may be a label's value, else a form of it that is as distinct."""
    if _LABEL_VALUE.match(text) or not text:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{slug(text)[:50] or 'x'}-{digest}"


def metadata(name: str, labels: Mapping[str, str], **annotations: str) -> Body:
    """Return the metadata of an object: what is selected by as labels, all as annotations."""
    known = {**labels, **annotations}
    selected = {key: label_value(known[key]) for key in _SELECTED if key in known}
    return {"name": name, "labels": selected, "annotations": known}


def select(labels: Mapping[str, str]) -> str:
    """Return a label selector for these labels."""
    return ",".join(f"{key}={label_value(value)}" for key, value in labels.items())


def pod(launch: Launch, rules: PodRules, extras: PodExtras) -> Body:
    """Return the pod of a launch."""
    labels = {**launch.labels, ownership.MEMORY_LIMIT: str(launch.limits.memory_bytes)}
    about = metadata(
        launch.name,
        labels,
        **{NETWORKS: json.dumps(launch.networks), WORKSPACE_NAME: launch.workspace.name},
        **({ownership.GATE: "true"} if extras.gate else {}),
    )
    secrets = extras.secrets or launch.name
    spec: Body = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": _GRACE_S,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "hostAliases": _host_aliases(extras.hosts),
        "initContainers": [_filler(launch, rules, extras)],
        "containers": [_step(launch, rules, extras), _keeper(launch, rules, extras)],
        "volumes": _volumes(secrets, rules, extras),
    }
    if extras.has_pull_secret:
        spec["imagePullSecrets"] = [{"name": secret_name(secrets, "pull")}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


def _step(launch: Launch, rules: PodRules, extras: PodExtras) -> Body:
    limits = _resources(launch)
    requested = _resources(launch, cpu=_CPU_REQUESTED, memory=_MEMORY_REQUESTED)
    security: Body = {"allowPrivilegeEscalation": False}
    if launch.kind != "service":
        security["capabilities"] = {"drop": ["ALL"]}
    made: Body = {
        "name": STEP_CONTAINER,
        "image": launch.image,
        "imagePullPolicy": rules.pull_policy,
        "envFrom": [{"secretRef": {"name": secret_name(extras.secrets or launch.name, "env")}}],
        "resources": {"requests": requested, "limits": limits},
        "securityContext": security,
        "volumeMounts": _mounts(launch, rules),
        "ports": [
            {"containerPort": port.number, "protocol": port.protocol.upper()}
            for port in launch.ports
        ],
    }
    made |= _program(launch.program)
    return _put_gate(made, extras.gate) if extras.gate else made


def _put_gate(container: Body, gate: Sequence[str]) -> Body:
    """Return the container with a gate before its program; it ends with who attaches to it."""
    mounts = [*container["volumeMounts"], _tools_mount()]  # type: ignore[misc]
    kept = {name: value for name, value in container.items() if name != "args"}
    changes = {"command": _literal(gate), "stdin": True, "stdinOnce": True, "volumeMounts": mounts}
    return kept | changes


def _tools_mount() -> Body:
    return {"name": "tools", "mountPath": TOOLS}


def program_words(program: UnitProgram) -> tuple[str, ...]:
    """Return what the container of a program starts; empty if that is known to its image alone."""
    return _command(program) + program.arguments if program.entrypoint else ()


def _resources(launch: Launch, *, cpu: float = 1, memory: float = 1) -> Body:
    limits = launch.limits
    return {
        "cpu": f"{max(1, round(limits.cpus * 1000 * cpu))}m",
        "memory": str(int(limits.memory_bytes * memory)),
    }


def _program(program: UnitProgram) -> Body:
    made: Body = {}
    if program.entrypoint:
        made["command"] = _literal(_command(program))
    if program.arguments:
        made["args"] = _literal(program.arguments)
    if program.starts_in == "step":
        made["workingDir"] = STEP_DIRECTORY
    return made


def _command(program: UnitProgram) -> tuple[str, ...]:
    entrypoint = program.entrypoint or ()
    if program.starts_in == "image-or-step":  # its shell alone knows the image's directory
        return ("sh", "-c", IN_STEP, "sh", *entrypoint)
    return entrypoint


def _literal(words: Sequence[str]) -> list[str]:
    """Return words that the kubelet leaves as they are: it replaces $(NAME), and $$ by $."""
    return [word.replace("$", "$$") for word in words]


def _filler(launch: Launch, rules: PodRules, extras: PodExtras) -> Body:
    mounts = _own_mounts(launch, rules, extras)
    mounts.append({"name": "archive", "mountPath": ARCHIVE})
    if rules.claim:
        mounts.append(_claim_mount(f"{launch.workspace.name}.state", CLAIM_STATE))
    script = ["sh", "-c", FILL, "sh", "fills" if extras.has_files else "has-none"]
    return _helper(FILLER, script, rules, mounts)


def _keeper(launch: Launch, rules: PodRules, extras: PodExtras) -> Body:
    return _helper(KEEPER, ["sh", "-c", KEEP], rules, _own_mounts(launch, rules, extras))


def _helper(name: str, command: list[str], rules: PodRules, mounts: list[Body]) -> Body:
    requested = {"cpu": "10m", "memory": str(64 * 2**20)}
    return {
        "name": name,
        "image": rules.helper_image,
        "imagePullPolicy": "Never" if rules.pull_policy == "Never" else "IfNotPresent",
        "command": _literal(command),
        "resources": {"requests": requested, "limits": {**requested, "cpu": "1"}},
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE", "FOWNER", "KILL"]},
        },
        "volumeMounts": mounts,
    }


def _own_mounts(launch: Launch, rules: PodRules, extras: PodExtras) -> list[Body]:
    tools = [_tools_mount()] if extras.gate else []
    return [*_mounts(launch, rules), {"name": "marks", "mountPath": MARKS}, *tools]


def _mounts(launch: Launch, rules: PodRules) -> list[Body]:
    """Return the mounts of the three directories of a step."""
    shared: Body = {"name": "workspace", "mountPath": WORKSPACE}
    if rules.claim:
        shared = _claim_mount(launch.workspace.name, WORKSPACE)
    return [
        {"name": "step", "mountPath": STEP_DIRECTORY},
        {"name": "artifacts", "mountPath": ARTIFACTS},
        shared,
    ]


def _claim_mount(folder: str, path: str) -> Body:
    return {"name": "workspace", "mountPath": path, "subPath": folder}


def _volumes(secrets: str, rules: PodRules, extras: PodExtras) -> list[Body]:
    archive: Body = {"emptyDir": {}}
    if not extras.is_fed:
        archive = {"secret": {"secretName": secret_name(secrets, "files")}}
    names = ("step", "artifacts", "marks", *(("tools",) if extras.gate else ()))
    empty: list[Body] = [{"name": name, "emptyDir": {}} for name in names]
    return [*empty, _workspace_volume(rules), {"name": "archive", **archive}]


def _workspace_volume(rules: PodRules) -> Body:
    if not rules.claim:
        return {"name": "workspace", "emptyDir": {}}
    return {"name": "workspace", "persistentVolumeClaim": {"claimName": rules.claim}}


def cleaner(run_id: str, labels: Mapping[str, str], rules: PodRules) -> Body:
    """Return a pod that removes the shared directories of a run from the claim.

    Containers whose pods are gone may still write for a moment: it tries for some seconds.
    """
    folders = f"/claim/{ownership.volume_name(run_id)}*"
    script = f"for try in 1 2 3 4 5 6 7 8 9; do rm -rf {folders} && exit 0; sleep 1; done; exit 1"
    mounts: list[Body] = [{"name": "workspace", "mountPath": "/claim"}]
    spec: Body = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_helper(KEEPER, ["sh", "-c", script], rules, mounts)],
        "volumes": [_workspace_volume(rules)],
    }
    about = metadata(shorten(f"partita-{run_id}-cleaner"), labels)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


def _host_aliases(hosts: Mapping[str, str]) -> list[Body]:
    by_address: dict[str, list[str]] = {}
    for name, address in hosts.items():
        if _HOST_NAME.match(name):
            by_address.setdefault(address, []).append(name)
    return [{"ip": ip, "hostnames": names} for ip, names in by_address.items()]


def secret_name(unit_name: str, role: str) -> str:
    return shorten(f"{unit_name}-{role}", limit=253)


def _secret(launch: Launch, role: str, values: Mapping[str, bytes], *, type_: str) -> Body:
    encoded = {key: base64.b64encode(value).decode() for key, value in values.items()}
    about = metadata(secret_name(launch.name, role), launch.labels, **{ROLE: role})
    return {"apiVersion": "v1", "kind": "Secret", "type": type_, "metadata": about, "data": encoded}


def environment_secret(launch: Launch) -> Body:
    """Return the Secret of the variables. Raises NameRefused."""
    for name in launch.environment:
        if not _SECRET_KEY.match(name):
            raise NameRefused(
                f"the variable {name[:80]!r} cannot be set on Kubernetes: a name may have letters, "
                "digits, dots, dashes and underscores"
            )
    values = {name: value.encode() for name, value in launch.environment.items()}
    return _secret(launch, "env", values, type_="Opaque")


def files_secret(launch: Launch, archive: bytes) -> Body:
    return _secret(launch, "files", {ARCHIVE_KEY: archive}, type_="Opaque")


def pull_secret(launch: Launch, credentials: PullCredentials) -> Body:
    both = f"{credentials.username}:{credentials.secret}".encode()
    known: dict[str, str] = {"auth": base64.b64encode(both).decode()}
    if not credentials.username:
        known = {"registrytoken": credentials.secret}
    document = json.dumps({"auths": {credentials.host: known}}).encode()
    return _secret(
        launch, "pull", {".dockerconfigjson": document}, type_="kubernetes.io/dockerconfigjson"
    )


def changes_secret(
    labels: Mapping[str, str], unit_name: str, workspace: str, changes: bytes
) -> Body:
    """Return the Secret that carries what a step wrote to the shared directory to later steps."""
    notes = {ROLE: CHANGES, WORKSPACE_NAME: workspace}
    about = metadata(secret_name(unit_name, CHANGES), labels, **notes)
    data = {CHANGES_KEY: base64.b64encode(changes).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": about, "data": data}


def directory_note(launch: Launch) -> Body:
    """Return the empty Secret by which a run's directory on the claim is found until it is gone."""
    about = metadata(launch.workspace.name, launch.run_labels, **{ROLE: DIRECTORY})
    return {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": about}


def owner_patch(pod_name: str, pod_uid: str) -> Body:
    """Return the change by which an object is deleted with the pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": pod_uid}
    return {"metadata": {"ownerReferences": [owner]}}


def service(launch: Launch) -> Body:
    """Return the Service of a service node; it has the declared ports, ready or not."""
    chosen = {
        key: label_value(launch.labels[key])
        for key in (ownership.INSTALLATION, ownership.RUN_ID, ownership.STEP)
    }
    ports: Sequence[Body] = [
        {
            "name": f"{port.protocol}-{port.number}",
            "port": port.number,
            "protocol": port.protocol.upper(),
        }
        for port in launch.ports
    ]
    spec = {"selector": chosen, "ports": ports, "publishNotReadyAddresses": True}
    about = metadata(service_name(launch.name), launch.labels)
    return {"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": spec}


def service_name(unit_name: str) -> str:
    """Return the name of a unit's Service; it begins with a letter, as DNS wants it."""
    return shorten(unit_name)
