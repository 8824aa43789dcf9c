"""From spec to launch: names, labels, commands, images, environment.

(reference: control-plane 13.2, 14.2, 14.3)
"""

from __future__ import annotations

from typing import Any

import pytest

from kernel.errors import InvalidInput
from tests.support import steps
from worker.domain import ownership
from worker.domain.launch import (
    CommandInvalid,
    LaunchRules,
    StepEnvironmentRules,
    image,
    limits,
    program,
    step_environment,
)
from worker.domain.runtime import CONTAINER_FOLDERS, Folders
from worker.domain.step_spec import StepNode, StepSpec, parse_step_spec

CONTAINER = CONTAINER_FOLDERS
HERE = Folders(workspace="/w", step="/s", artifacts="/a", own_host=True)
IMAGES = {"sh": "alpine:3.20", "py": "python:3.12-alpine"}


def spec(node_id: str = "api", **changes: Any) -> StepSpec:
    return parse_step_spec(steps.claim("run-3f9a0c1be77d", node_id, **changes))


def node(**changes: Any) -> StepNode:
    return StepNode(**{"id": "step", "name": "step", "kind": "task"} | changes)


@pytest.mark.parametrize(
    ("changes", "argv"),
    [
        ({"file": "seed.sh"}, ("sh", "tasks/seed.sh")),
        ({"file": "tasks/seed"}, ("sh", "tasks/seed")),
        ({"file": "e2e.py", "kind": "test"}, ("python3", "tests/e2e.py")),
        (
            {"file": "api.ts", "kind": "service"},
            ("node", "--experimental-strip-types", "services/api.ts"),
        ),
        ({"commands": ("a", "b")}, ("sh", "-e", "-c", "a\nb")),
        ({"command": ("redis-server",)}, ("redis-server",)),
        ({}, ()),
    ],
)
def test_the_program_of_a_node(changes: dict[str, Any], argv: tuple[str, ...]) -> None:
    assert program(node(**changes)).argv == argv


def test_files_start_in_the_directory_of_the_step_and_commands_where_the_image_names_none() -> None:
    assert program(node(file="seed.sh")).starts_in == "step"
    assert program(node(commands=("x",))).starts_in == "image-or-step"
    assert program(node(command=("x",))).starts_in == "image"


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        ({"file": "seed.go"}, "go run tasks/seed.go"),
        ({"file": "tests/money_test.go"}, "go test -v tests/money_test.go"),
        ({"file": "schema.sql"}, "psql -X -v ON_ERROR_STOP=1 -f tasks/schema.sql"),
        ({"file": "smoke.bats"}, "bats tasks/smoke.bats"),
        ({"file": "checkout.hurl"}, "hurl --test tasks/checkout.hurl"),
        ({"file": "load.k6.js"}, "k6 run tasks/load.k6.js"),
        ({"file": "load.js", "image": "docker.io/grafana/k6:0.54.0"}, "k6 run tasks/load.js"),
        ({"file": "load.js", "image": "registry.example/k6-tools:1"}, "node tasks/load.js"),
        ({"file": "SMOKE.BATS"}, "bats tasks/SMOKE.BATS"),
    ],
)
def test_scripts_of_other_tools_run_under_the_commands_of_these(changes, command) -> None:
    assert " ".join(program(node(**changes)).argv) == command


def test_a_command_runs_under_the_entrypoint_of_the_image() -> None:
    assert program(node(command=("x",))).entrypoint is None


def test_an_unknown_extension_names_the_known_ones() -> None:
    with pytest.raises(
        CommandInvalid, match=r'tasks/x\.pl: no interpreter for "\.pl" files; known: \.sh'
    ):
        program(node(file="x.pl"))


def test_the_image_is_declared_or_belongs_to_the_file() -> None:
    assert image(node(image="redis:7", file="a.py"), IMAGES) == "redis:7"
    assert image(node(file="a.py"), IMAGES) == "python:3.12-alpine"
    assert image(node(commands=("a",)), IMAGES) == "alpine:3.20"
    assert image(node(command=("a",)), IMAGES) == ""


def test_names_of_a_root_node() -> None:
    root = spec("pay API")

    assert (
        ownership.unit_name("run-3f9a0c1be77d", "pay API", 2)
        == "partita-run-3f9a0c1be77d-pay-api-a2"
    )
    assert ownership.networks(root) == {"partita-net-run-3f9a0c1be77d": ("pay-api", "pay API")}


def test_an_imported_node_has_its_bare_id_in_the_network_of_its_import() -> None:
    assert ownership.networks(spec("pay/inner/api")) == {
        "partita-net-run-3f9a0c1be77d": ("pay-inner-api",),
        "partita-net-run-3f9a0c1be77d-pay-inner": ("api",),
    }
    assert ownership.volume_name("run-1", "pay/inner") == "partita-ws-run-1-pay-inner"


def test_long_names_are_cut_with_a_hash() -> None:
    name = ownership.unit_name("run-3f9a0c1be77d", "x" * 80, 1)

    assert len(name) == 63
    assert name != ownership.unit_name("run-3f9a0c1be77d", "x" * 81, 1)


def test_every_label_of_the_reference_is_there() -> None:
    labels = ownership.step_labels(spec(), steps.owner(), started_at="2026-01-02T03:04:05.123Z")

    wanted = (
        "managed installation run_id workspace_id suite owner profile backend_id step step_kind "
        "attempt orchestrator_id host_id started_at"
    )
    assert {f"partita.{name}" for name in wanted.split()} <= labels.keys()
    assert ownership.is_owned(labels, steps.INSTALLATION)
    assert not ownership.is_owned(labels, "another")


def test_limits_are_those_of_the_kind_unless_declared_and_never_beyond_the_installations() -> None:
    rules = LaunchRules(max_memory_bytes=2**31, max_cpus=3)

    assert limits(node(), rules).memory_bytes == 512 * 2**20
    assert limits(node(kind="service"), rules).pids == 1024
    assert limits(node(memory_bytes=2**40, cpus=16.0), rules).memory_bytes == 2**31
    assert limits(node(cpus=0.5), rules).cpus == 0.5


def test_built_in_variables_cannot_be_overridden() -> None:
    step = spec(env={"PARTITA_STEP_ID": "forged", "GREETING": "hi"})

    environment = step_environment(step, StepEnvironmentRules(), CONTAINER)

    assert environment["PARTITA_STEP_ID"] == "api"
    assert environment["PARTITA_WORKSPACE_DIR"] == "/partita/workspace"
    assert environment["PARTITA_STEP_DIR"] == "/partita/step"
    assert environment["GREETING"] == "hi"


def test_a_loopback_mock_host_is_the_gateway_inside_containers_only() -> None:
    step = spec(
        env={"PARTITA_MOCK_BASE_URL": "http://localhost:8090"},
        mockUrls={"pay/psp": "http://127.0.0.1:8090/mocks/rest/x", "far": "https://mocks.example"},
    )

    inside = step_environment(step, StepEnvironmentRules(), CONTAINER)
    here = step_environment(step, StepEnvironmentRules(), HERE)

    assert inside["PARTITA_MOCK_BASE_URL"] == "http://host.docker.internal:8090"
    assert inside["PARTITA_MOCK_PAY_PSP_URL"] == "http://host.docker.internal:8090/mocks/rest/x"
    assert inside["PARTITA_MOCK_FAR_URL"] == "https://mocks.example"
    assert here["PARTITA_MOCK_BASE_URL"] == "http://localhost:8090"


TRACED = StepEnvironmentRules(
    telemetry={
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
    }
)
TRACEPARENT = f"00-{'a' * 32}-{'b' * 16}-01"


def test_with_traces_on_a_step_knows_its_span_and_where_to_send_its_own() -> None:
    forged = {"TRACEPARENT": "forged", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://elsewhere:4317"}
    step = spec(traceparent=TRACEPARENT, env=forged)

    inside = step_environment(step, TRACED, CONTAINER)
    here = step_environment(step, TRACED, HERE)

    assert inside["TRACEPARENT"] == TRACEPARENT
    assert inside["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://host.docker.internal:4317"
    assert inside["OTEL_EXPORTER_OTLP_PROTOCOL"] == "grpc"
    assert here["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://localhost:4317"


def test_with_traces_off_a_step_gets_neither_span_nor_endpoint() -> None:
    environment = step_environment(spec(traceparent="", env={}), TRACED, CONTAINER)

    assert not [name for name in environment if name.startswith(("TRACE", "OTEL"))]


def test_each_prefix_gets_its_own_built_in_variables() -> None:
    environment = step_environment(spec(), StepEnvironmentRules(prefixes=("A", "B")), CONTAINER)

    assert environment["A_EXECUTION_ID"] == environment["B_EXECUTION_ID"] == "run-3f9a0c1be77d"


@pytest.mark.parametrize(
    "change", [{"node": {"ports": ["x"]}}, {"attempt": "x"}, {"artifactExports": [{"on": "never"}]}]
)
def test_a_spec_that_cannot_be_read_says_what_is_wrong(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="step spec: "):
        parse_step_spec(steps.claim("run-1", "api") | change)


def test_unknown_keys_of_a_spec_are_ignored() -> None:
    assert parse_step_spec(steps.claim("run-1", "api", news="yes")).node.id == "api"
