"""docker-compose.yml, Dockerfile and .dockerignore, read as text.

(reference: sync-stack 7.1, 7.2)
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sync_stack.configuration.bundle_file import BundleFile
from sync_stack.configuration.conf import Environment, bundle_settings
from sync_stack.configuration.startup import StartRefused
from sync_stack.configuration.telemetry import read_export_settings
from tests.support import compose
from tests.support.processes import ROOT

PASSWORD = "p@ss/w:rd$1 #%"
OPERATOR = {"MONGO_ROOT_PASSWORD": PASSWORD}
PARTITA = {"orchestrator-api", "orchestrator-worker", "gateway", "watcher"}
VOLUMES = {
    "redis": {"redis-data:/data"},
    "mongo": {"mongo-data:/data/db"},
    "orchestrator-api": {
        "schema-cache:/cache/schemas",
        "git-cache:/cache/git",
        "state-orchestrator-api:/state",
        "state-orchestrator-worker:/state/orchestrator-worker",
        "state-gateway:/state/gateway",
        "state-watcher:/state/watcher",
    },
    "orchestrator-worker": {
        "schema-cache:/cache/schemas",
        "git-cache:/cache/git",
        "state-orchestrator-worker:/state:ro",
    },
    "gateway": {"state-gateway:/state:ro", "gateway-inbox:/inbox"},
    "watcher": {"state-watcher:/state:ro"},
}
NEEDS = {
    "redis": set(),
    "mongo": set(),
    "orchestrator-api": {"redis"},
    "orchestrator-worker": {"orchestrator-api"},
    "gateway": {"orchestrator-api"},
    "watcher": {"orchestrator-api", "redis"},
}
CHECKS = {
    "redis": ("5s", "3s", 10),
    "mongo": ("10s", "5s", 10),
    "orchestrator-api": ("10s", "5s", 20),
    "gateway": ("10s", "5s", 20),
    "watcher": ("10s", "5s", 20),
}
ASKED = {
    "orchestrator-api": ":8000/v1/health/readiness",
    "gateway": ":9090/health/readiness",
    "watcher": ":9091/health/readiness",
}


@pytest.fixture
def services() -> dict[str, Any]:
    return compose.services(OPERATOR)


def test_a_plain_start_starts_exactly_the_six_services():
    every = yaml.safe_load(compose.FILE.read_text())["services"]
    assert {name for name, each in every.items() if not each.get("profiles")} == set(VOLUMES)


def test_images_commands_and_needs_are_those_of_the_reference(services):
    assert services["redis"]["image"] == "redis:7-alpine"
    assert "--appendonly yes" in " ".join(services["redis"]["command"])
    assert services["mongo"]["image"] == "mongo:7"
    assert len({services[name]["image"] for name in PARTITA}) == 1
    commands = {name: " ".join(services[name]["command"]) for name in PARTITA}
    assert commands == {
        "orchestrator-api": "python manage.py run_orchestrator --migrate",
        "orchestrator-worker": (
            "celery -A platform_site worker -Q sync --concurrency 4"
            " --without-gossip --without-mingle"
        ),
        "gateway": "python manage.py run_gateway",
        "watcher": "python manage.py run_watcher",
    }
    for name, needs in NEEDS.items():
        given = services[name].get("depends_on", {})
        assert set(given) == needs, name
        assert all(each["condition"] == "service_healthy" for each in given.values())


def test_health_checks_are_those_of_the_reference(services):
    assert {name for name in services if "healthcheck" in services[name]} == set(CHECKS)
    for name, (interval, timeout, retries) in CHECKS.items():
        check = services[name]["healthcheck"]
        assert (check["interval"], check["timeout"], check["retries"]) == (
            interval,
            timeout,
            retries,
        )
        assert check.get("start_period") == ("20s" if name in PARTITA else None)
    for name, url in ASKED.items():
        test = services[name]["healthcheck"]["test"]
        assert test[-1].endswith(url)
        assert "urllib" in test[-2]


def test_volumes_and_ports_are_those_of_the_reference(services):
    named = set(yaml.safe_load(compose.FILE.read_text())["volumes"])
    used = set()
    for name, wanted in VOLUMES.items():
        mounts = [each for each in compose.mounts(services[name]) if not each.bind]
        assert {
            f"{each.source}:{each.target}{':ro' if each.read_only else ''}" for each in mounts
        } == wanted
        used |= {each.source for each in mounts}
    assert used == named
    ports = {name: each["ports"] for name, each in services.items() if "ports" in each}
    assert ports == {"orchestrator-api": ["8000:8000"], "gateway": ["5657:5657"]}


@pytest.mark.parametrize(
    "given", ["", "conf/b.yaml", "./b.json", "../cfg/prod.cue", "../../prod.yaml", "/srv/prod.cue"]
)
def test_the_bundle_is_mounted_at_one_place_wherever_it_lies_and_must_exist(given):
    for name in PARTITA:
        service = compose.services(OPERATOR | {"CONFIG_PATH": given})[name]
        (bundle,) = [each for each in service["volumes"] if isinstance(each, dict)][:1]
        inside = service["environment"]
        assert bundle["source"] == (given or "./config.cue")
        assert bundle["target"] == inside["CONFIG_PATH"] == "/bundle/config.cue"
        assert bundle["read_only"] is True
        assert bundle["bind"] == {"create_host_path": False}
        assert inside["CONFIG_NAME"] == (given or "config.cue")


def test_a_bundle_elsewhere_is_read_by_its_own_suffix_and_named_as_outside(tmp_path):
    inside = compose.services(OPERATOR | {"CONFIG_PATH": "../cfg/prod.yaml"})["gateway"]
    path = tmp_path / Path(inside["environment"]["CONFIG_PATH"]).name
    path.write_text("bundle:\n  rules: []\n")
    variables = {"CONFIG_PATH": str(path), "CONFIG_NAME": inside["environment"]["CONFIG_NAME"]}
    settings = bundle_settings(Environment(variables), app_env="production")

    with pytest.raises(StartRefused) as refused:
        BundleFile.load(settings)

    assert all(line.startswith("../cfg/prod.yaml:") for line in refused.value.lines)
    assert "../cfg/prod.yaml:2:10: bundle.rules: " in "\n".join(refused.value.lines)


def test_every_service_runs_with_as_little_as_possible(services):
    for name, service in services.items():
        assert service["read_only"] is True
        assert service["tmpfs"] == ["/tmp"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["restart"] == "unless-stopped"
        assert service["networks"] == ["sync"]
        assert service["user"] not in ("", "root", "0", "0:0")
        grace = "60s" if name == "orchestrator-worker" else "30s"
        assert service["stop_grace_period"] == grace
        assert "container_name" not in service  # or replicas could not be had


def test_only_the_root_password_must_be_set():
    with pytest.raises(compose.MissingVariable, match="MONGO_ROOT_PASSWORD"):
        compose.services({})
    with pytest.raises(compose.MissingVariable, match="MONGO_ROOT_PASSWORD"):
        compose.services({"MONGO_ROOT_PASSWORD": ""})
    asked = set(re.findall(r"\$\{(\w+):?\?", compose.FILE.read_text()))
    assert asked == {"MONGO_ROOT_PASSWORD"}


def test_the_password_is_handed_on_as_it_is_and_never_to_the_gateway(services):
    for name in PARTITA - {"gateway"}:
        assert services[name]["environment"]["MONGO_USER"] == "partita"
        assert services[name]["environment"]["MONGO_PASSWORD"] == PASSWORD
    assert services["mongo"]["environment"]["MONGO_INITDB_ROOT_PASSWORD"] == PASSWORD
    assert PASSWORD not in str(services["gateway"])
    assert PASSWORD not in str([each.get("command") for each in services.values()])


def test_the_variables_of_the_operator_reach_whom_they_are_for():
    given = {
        **OPERATOR,
        "APP_ENV": "development",
        "LOG_LEVEL": "DEBUG",
        "MONGO_ROOT_USER": "boss",
        "GATEWAY_PORT": "15657",
        "ORCHESTRATOR_PORT": "18000",
        "WORKER_CONCURRENCY": "9",
        "WATCHER_POLL_INTERVAL": "5s",
        "CORS_ORIGINS": "https://a.example",
        "SECRET_KEY": "k" * 40,
        "TASK_API_KEYS": "one,two",
        "GATEWAY_TLS_CERT": "/tls/a.pem",
        "GATEWAY_TLS_KEY": "/tls/a.key",
        "RECONCILE_INTERVAL": "1m",
        "MONGO_URI": "mongodb://elsewhere",
    }
    services = compose.services(given)
    seen = {name: services[name]["environment"] for name in PARTITA}
    assert {each["APP_ENV"] for each in seen.values()} == {"development"}
    assert {each["LOG_LEVEL"] for each in seen.values()} == {"DEBUG"}
    assert {name for name in PARTITA if "SECRET_KEY" in seen[name]} == PARTITA - {"gateway"}
    assert services["mongo"]["environment"]["MONGO_INITDB_ROOT_USERNAME"] == "boss"
    assert seen["watcher"]["MONGO_USER"] == "boss"
    assert seen["watcher"]["MONGO_URI"] == "mongodb://elsewhere"
    assert seen["watcher"]["POLL_INTERVAL"] == "5s"
    assert services["gateway"]["ports"] == ["15657:5657"]
    assert services["orchestrator-api"]["ports"] == ["18000:8000"]
    words = services["orchestrator-worker"]["command"]
    assert words[words.index("--concurrency") + 1] == "9"
    assert seen["orchestrator-api"]["CORS_ORIGINS"] == "https://a.example"
    assert seen["orchestrator-api"]["TASK_API_KEYS"] == "one,two"
    assert seen["orchestrator-api"]["RECONCILE_INTERVAL"] == "1m"
    assert seen["gateway"]["GATEWAY_TLS_CERT"] == "/tls/a.pem"
    plain = compose.services(OPERATOR)["watcher"]["environment"]
    assert (plain["APP_ENV"], plain["DB_DRIVER"]) == ("production", "mongo")
    assert (plain["MONGO_URI"], plain["MONGO_DB"]) == ("bundle", "partita")


def test_traces_and_log_shipping_are_settings_of_every_process():
    given = {
        "OTEL_ENABLED": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-key=1",
        "OTEL_RESOURCE_ATTRIBUTES": "team=shop",
        "ELK_ENABLED": "true",
        "ES_ENDPOINTS": "https://search:9200",
        "ES_INDEX": "sync",
    }
    services = compose.services(OPERATOR | given)

    for name in PARTITA:
        environment = Environment(services[name]["environment"])
        told = read_export_settings(environment, service=name)
        assert environment.problems == []
        assert told.telemetry
        assert told.shipping
        assert (told.telemetry.endpoint, told.telemetry.protocol) == (
            "http://collector:4318",
            "http/protobuf",
        )
        assert told.telemetry.service_name == f"partita-sync-{name}"
        assert told.shipping.index == "sync"


def test_without_these_settings_nothing_is_traced_or_shipped(services):
    for name in PARTITA:
        environment = Environment(services[name]["environment"])
        told = read_export_settings(environment, service=name)
        assert (told.telemetry, told.shipping, environment.problems) == (None, None, [])


def test_the_image_has_several_stages_a_user_and_no_secret():
    text = (ROOT / "Dockerfile").read_text()
    stages = re.findall(r"^FROM \S+ AS (\S+)$", text, re.MULTILINE)
    assert stages == ["libraries", "control-plane", "cue-none", "cue-program", "cue", "partita"]
    assert "\nARG CUE=none\n" in text  # the program of CUE is compiled where it is asked for
    last = text.split("\nFROM ")[-1]
    assert "\nUSER 10001:10001\n" in last
    assert not re.search(r"^(ARG|ENV).*(SECRET|PASSWORD|TOKEN|KEY)", text, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+) ", text, re.MULTILINE)) == {
        "${BASE}",
        "golang:1.24-bookworm",
        "cue-${CUE}",
        "control-plane",
    }
    assert 'CMD ["python", "-m", "kernel.container_health"]' in text.split("HEALTHCHECK ")[1]
    assert text.index("compileall") < text.index("COPY examples/")  # of suites, nothing is compiled
    copied = re.findall(r"^COPY (?!--from)(\S+) ", text, re.MULTILINE)
    for path in copied:
        assert (ROOT / path).exists()
        assert not compose.ignored_by_docker(path), path
    for path in (
        ".env",
        ".git",
        "var",
        "tests",
        "config.cue",
        "docker-compose.yml",
        ".venv",
        "examples/deploy",
    ):
        assert compose.ignored_by_docker(path), path
