"""The step spec and its topology node (reference: control-plane 9) as frozen values.

(reference: control-plane 13.1)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kernel.durations import parse_bytes, parse_cpu
from kernel.errors import InvalidInput

EXPORT_MOMENTS: Final = ("success", "failure", "always")


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    number: int
    protocol: str = "tcp"

    def __str__(self) -> str:
        return f"{self.number}/{self.protocol}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A declared readiness probe; exactly one of `http`, `tcp`, `log`, `command` is set."""

    http: str | None = None
    tcp: int | None = None
    log: str | None = None
    command: tuple[str, ...] = ()
    port: int | None = None
    statuses: frozenset[int] = frozenset()  # empty: 200-399
    interval_ms: int = 500
    start_period_ms: int = 0
    timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """An artifact to take from the unit; `path` may hold the globs `*`, `**` and `?`."""

    path: str
    name: str = ""
    on: str = "success"
    format: str = "raw"
    required: bool = False

    def is_wanted(self, *, succeeded: bool) -> bool:
        return self.on == "always" or (self.on == "success") == succeeded


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNode:
    """What to run. Empty `image`, `file`, `command`, `commands` mean: not declared."""

    id: str
    name: str
    kind: str
    image: str = ""
    file: str = ""
    command: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    ready: Ready | None = None
    cpus: float | None = None
    memory_bytes: int | None = None

    @property
    def import_path(self) -> str:
        """`pay/inner` of the node `pay/inner/api`; empty for a node of the launched suite."""
        return self.id.rpartition("/")[0]

    @property
    def bare_id(self) -> str:
        return self.id.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEvaluation:
    expect_exit: int = 0
    expect_logs: tuple[str, ...] = ()
    fail_on_logs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    job_id: str
    attempt: int
    execution_id: str
    node: StepNode
    timeout_ms: int
    lease_ms: int = 30_000
    suite_id: str = ""
    source_suite_id: str = ""
    workspace_id: str = ""
    owner: str = ""
    installation_id: str = ""
    profile: str = ""
    backend_id: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    mock_urls: Mapping[str, str] = field(default_factory=dict)
    secret_keys: tuple[str, ...] = ()
    evaluation: StepEvaluation = StepEvaluation()
    exports: tuple[Export, ...] = ()
    traceparent: str = ""
    content_digest: str = ""
    measured: bool = True  # CPU and memory, unless the profile says no
    keeps_unit: bool = False  # the ended unit stays until the run is released

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(self.env[key] for key in self.secret_keys if key in self.env)

    @property
    def is_service(self) -> bool:
        return self.node.kind == "service"


def parse_step_spec(body: Mapping[str, Any]) -> StepSpec:
    """The JSON of a claim; unknown keys are ignored. Raises InvalidInput naming what is wrong."""
    try:
        return _parse(body)
    except KeyError as error:
        raise InvalidInput(f"step spec: {error.args[0]!r} is missing") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"step spec: {error}") from error


def _parse(body: Mapping[str, Any]) -> StepSpec:
    return StepSpec(
        job_id=str(body["jobId"]),
        attempt=int(body["attempt"]),
        execution_id=str(body["executionId"]),
        node=_node(body["node"]),
        timeout_ms=int(body["timeoutMs"]),
        lease_ms=int(body.get("leaseMs", 30_000)),
        suite_id=body.get("suiteId", ""),
        source_suite_id=body.get("sourceSuiteId") or body.get("suiteId", ""),
        workspace_id=body.get("workspaceId", ""),
        owner=body.get("owner", ""),
        installation_id=body.get("installationId", ""),
        profile=body.get("profile", ""),
        backend_id=body.get("backendId", ""),
        env=_texts(body.get("env", {})),
        headers=_texts(body.get("headers", {})),
        mock_urls=_texts(body.get("mockUrls", {})),
        secret_keys=tuple(body.get("secretKeys", ())),
        evaluation=_evaluation(body.get("evaluation", {})),
        exports=tuple(_export(each) for each in body.get("artifactExports", ())),
        traceparent=body.get("traceparent", ""),
        content_digest=body.get("content", {}).get("digest", ""),
        measured=bool(body.get("observability", {}).get("metrics", True)),
        keeps_unit=bool(body.get("keepUnits", False)),
    )


def _texts(mapping: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in mapping.items()}


def _node(body: Mapping[str, Any]) -> StepNode:
    resources = body.get("resources", {})
    return StepNode(
        id=str(body["id"]),
        name=str(body.get("name", body["id"])),
        kind=str(body["kind"]),
        image=body.get("image", ""),
        file=body.get("file", ""),
        command=tuple(body.get("command", ())),
        commands=tuple(body.get("commands", ())),
        ports=tuple(parse_port(port) for port in body.get("ports", ())),
        ready=_ready(body["ready"]) if body.get("ready") else None,
        cpus=parse_cpu(resources["cpu"]) if "cpu" in resources else None,
        memory_bytes=parse_bytes(resources["memory"]) if "memory" in resources else None,
    )


def parse_port(port: str | int) -> Port:
    """`8080`, `"8080"`, `"53/udp"`; raises ValueError."""
    number, _, protocol = str(port).partition("/")
    return Port(number=int(number), protocol=protocol or "tcp")


def _ready(body: Mapping[str, Any]) -> Ready:
    defaults, command = Ready(), body.get("command", ())
    return Ready(
        http=body.get("http"),
        tcp=body.get("tcp"),
        log=body.get("log"),
        command=("sh", "-c", command) if isinstance(command, str) else tuple(command),
        port=body.get("port"),
        statuses=frozenset(body.get("status", ())),
        interval_ms=int(body.get("intervalMs", defaults.interval_ms)),
        start_period_ms=int(body.get("startPeriodMs", defaults.start_period_ms)),
        timeout_ms=int(body.get("timeoutMs", defaults.timeout_ms)),
    )


def _evaluation(body: Mapping[str, Any]) -> StepEvaluation:
    return StepEvaluation(
        expect_exit=int(body.get("expectExit", 0)),
        expect_logs=tuple(body.get("expectLogs", ())),
        fail_on_logs=tuple(body.get("failOnLogs", ())),
    )


def _export(body: Mapping[str, Any]) -> Export:
    on = body.get("on", "success")
    if on not in EXPORT_MOMENTS:
        raise ValueError(f"export {body['path']!r}: on must be one of {', '.join(EXPORT_MOMENTS)}")
    return Export(
        path=str(body["path"]),
        name=body.get("name", ""),
        on=on,
        format=body.get("format", "raw"),
        required=bool(body.get("required", False)),
    )
