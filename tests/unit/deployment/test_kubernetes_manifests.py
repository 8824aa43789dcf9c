"""The manifests of examples/deploy/kubernetes and the guide, read as text."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from django.test import override_settings

from apps.platform_settings.domain.document import read_file
from apps.platform_settings.domain.fields import SettingsContext
from kernel.version import VERSION
from tests.support import manifests
from tests.support.manifests import BASE, CHART, GUIDE, STORES, Object
from worker.runtimes.kubernetes.rights import RIGHTS

OBJECTS = [*manifests.written_objects(BASE), *manifests.written_objects(STORES)]
SPECS = dict(manifests.pod_specs(OBJECTS))
CONTAINERS = [
    pytest.param(each, id=f"{name}-{each['name']}")
    for name, spec in SPECS.items()
    for each in manifests.containers(spec)
]
WITHOUT_PORT = ("migrate", "runner", "celery")  # their failing loops are in /readyz of web


def named(kind: str, name: str) -> Object:
    (found,) = [e for e in OBJECTS if (e["kind"], e["metadata"]["name"]) == (kind, name)]
    return found


def settings() -> dict[str, str]:
    lines = (BASE / "settings.env").read_text().splitlines()
    return dict(line.partition("=")[::2] for line in lines)


def blocks_of_guide() -> list[Any]:
    found = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return [yaml.safe_load(each) for each in found]


def test_the_role_is_that_of_the_guide_and_of_the_chart():
    role = named("Role", "partita-runner")
    (in_guide,) = [e for e in blocks_of_guide() if isinstance(e, dict) and e.get("kind") == "Role"]
    text = (CHART / "templates" / "rights.yaml").read_text()
    rules = re.search(r"^rules:\n.*?(?=^---$)", text, re.MULTILINE | re.DOTALL)

    assert in_guide == role
    assert rules is not None
    assert yaml.safe_load(rules[0])["rules"] == role["rules"]


def test_the_role_grants_what_check_cluster_asks_for_and_nothing_else():
    granted = {
        f"{verb} {resource}"
        for rule in named("Role", "partita-runner")["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }

    assert granted == {str(each) for each in RIGHTS}
    assert all(rule["apiGroups"] == [""] for rule in named("Role", "partita-runner")["rules"])
    assert not {"ClusterRole", "ClusterRoleBinding"} & {each["kind"] for each in OBJECTS}


@pytest.mark.parametrize("name", SPECS)
def test_pods_run_as_a_user_without_rights_and_only_the_runner_has_an_account(name):
    spec = SPECS[name]
    security = spec["securityContext"]

    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] > 0
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is (name == "partita-runner")
    assert spec["enableServiceLinks"] is False
    assert not any("hostPath" in each for each in spec["volumes"])
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)


@pytest.mark.parametrize("container", CONTAINERS)
def test_containers_have_a_read_only_root_no_capabilities_and_limits(container):
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    for bound in ("requests", "limits"):
        assert set(container["resources"][bound]) == {"cpu", "memory"}


@pytest.mark.parametrize("container", CONTAINERS)
def test_what_listens_has_probes(container):
    probes = {"startupProbe", "livenessProbe", "readinessProbe"} & set(container)

    if container["name"] in WITHOUT_PORT:
        assert not probes
        assert "ports" not in container
    else:
        assert len(probes) == 3


def test_web_is_asked_at_the_routes_that_exist(client):
    (web,) = SPECS["partita-web"]["containers"]

    assert web["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert web["readinessProbe"]["httpGet"]["path"] == "/readyz"
    with override_settings(ROOT_URLCONF="apps.health.urls"):
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("folder", [BASE, STORES])
def test_images_have_a_tag_that_names_a_version(folder):
    images = yaml.safe_load((folder / "kustomization.yaml").read_text())["images"]

    used = {e["image"] for e in (c.values[0] for c in CONTAINERS) if isinstance(e, dict)}
    assert used == {"partita", "postgres", "redis"}
    for each in images:
        assert re.match(r"\d", str(each["newTag"])), each
    if folder == BASE:
        assert images == [{"name": "partita", "newName": "partita", "newTag": VERSION}]


def test_no_secret_is_in_the_manifests_and_every_secret_is_a_file():
    assert "Secret" not in {each["kind"] for each in OBJECTS}
    for name, value in settings().items():
        if re.search(r"SECRET|PASSWORD|DSN|TOKEN", name):
            assert name.endswith("_FILE"), name
            assert value.startswith("/run/secrets/partita/")
    variables = [e["name"] for c in CONTAINERS for e in c.values[0].get("env", ())]  # type: ignore[union-attr]
    assert {e for e in variables if "PASSWORD" in e} == {"POSTGRES_PASSWORD_FILE"}


def test_the_guide_makes_a_secret_with_every_key_that_is_mounted():
    mounted = {value.rpartition("/")[2] for value in settings().values() if "/secrets/" in value}
    for name in ("partita-postgres", "partita-redis"):
        (volume,) = [each for each in SPECS[name]["volumes"] if "secret" in each]
        mounted |= {item["key"] for item in volume["secret"]["items"]}

    made = set(re.findall(r"--from-literal=([a-z-]+)=", GUIDE.read_text()))

    assert made == mounted


def test_every_selector_finds_the_pods_that_it_means():
    labels = {
        each["metadata"]["name"]: {
            "app.kubernetes.io/name": "partita",
            **each["spec"]["template"]["metadata"]["labels"],
        }
        for each in OBJECTS
        if each["kind"] in ("Deployment", "StatefulSet")
    }
    for each in OBJECTS:
        name, spec = each["metadata"]["name"], each.get("spec", {})
        if each["kind"] in ("Deployment", "StatefulSet", "PodDisruptionBudget"):
            assert spec["selector"]["matchLabels"].items() <= labels[name].items()
        elif each["kind"] == "Service":
            assert spec["selector"].items() <= labels[name].items()
            (container,) = SPECS[name]["containers"]
            (port,) = container["ports"]
            assert spec["ports"][0]["targetPort"] == port["name"]


def test_the_stores_are_reached_by_partita_alone():
    spec = named("NetworkPolicy", "partita-stores")["spec"]

    (ingress,) = spec["ingress"]
    (peer,) = ingress["from"]
    assert peer["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "partita"}
    (component,) = peer["podSelector"]["matchExpressions"]
    assert component["values"] == ["web", "runner", "celery"]
    assert spec["egress"] == []


def test_the_platform_settings_are_valid_in_a_pod_and_equal_in_the_chart():
    text = (BASE / "configuration.yaml").read_text()
    variables = {"PARTITA_CONFIG_NAMESPACE": "team-a", "PARTITA_CONFIG_SHARED_CLAIM": "files"}

    document = read_file(
        text, "configuration.yaml", SettingsContext(variables=variables, in_cluster=True)
    )[0]

    (agent,) = document.agents
    assert (agent.type, agent.target_namespace, agent.shared_claim) == (
        "kubernetes",
        "team-a",
        "files",
    )
    assert (CHART / "files" / "configuration.yaml").read_text() == text


def test_the_chart_is_of_this_release():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert chart["appVersion"] == chart["version"] == VERSION
