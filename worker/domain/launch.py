"""From a step spec to a launch: program, environment, limits.

(reference: control-plane 13.2, 14.2, 14.3)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final, Literal
from urllib.parse import urlsplit, urlunsplit

from kernel.agent_protocol import mock_variable
from kernel.scripts import interpreter_name, script_command, unknown_extension
from worker.domain import ownership
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import Folders, Launch, SharedDirectory, UnitLimits, UnitProgram
from worker.domain.step_spec import StepNode, StepSpec

_FOLDERS: Final = {"service": "services", "task": "tasks", "test": "tests"}
GATEWAY_HOST = "host.docker.internal"
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")  # noqa: S104 - names to replace, not to bind
_MIB: Final = 2**20
_STEP_LIMITS: Final = UnitLimits(memory_bytes=512 * _MIB, cpus=1, pids=256)
_SERVICE_LIMITS: Final = UnitLimits(memory_bytes=1024 * _MIB, cpus=2, pids=1024)


class CommandInvalid(ValueError):
    """The file's extension names no known interpreter."""


def program(node: StepNode) -> UnitProgram:
    """Return the program of a node. Raises CommandInvalid for an unknown extension.

    A node with `commands` and a `file` is one that runs again with other commands instead of it.
    """
    if node.commands:
        lines = "\n".join(node.commands)
        starts_in: Literal["step", "image-or-step"] = "step" if node.file else "image-or-step"
        return UnitProgram(entrypoint=("sh", "-e", "-c", lines), starts_in=starts_in)
    if node.file:
        script = script_path(node)
        if problem := unknown_extension(script):
            raise CommandInvalid(f"{script}: {problem}")
        command = script_command(script, node.image)
        return UnitProgram(entrypoint=(*command, script), starts_in="step")
    return UnitProgram(arguments=node.command)


def image(node: StepNode, defaults: Mapping[str, str]) -> str:
    """Return the declared image, else the default for the file's extension; empty without one."""
    if node.image:
        return node.image
    if node.file:
        return defaults.get(interpreter_name(script_path(node)), "")
    return defaults.get("sh", "") if node.commands else ""


def script_path(node: StepNode) -> str:
    """Return the path in the suite, with the folder of the node's kind if left out."""
    path = PurePosixPath(node.file)
    if path.parts[0] in _FOLDERS.values():
        return str(path)
    return str(_FOLDERS.get(node.kind, "tasks") / path)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnvironmentRules:
    """`telemetry`: variables that are added when traces are on; their URLs are this host's."""

    prefixes: Sequence[str] = ("PARTITA",)
    telemetry: Mapping[str, str] = field(default_factory=dict)


def step_environment(
    spec: StepSpec, rules: StepEnvironmentRules, folders: Folders
) -> dict[str, str]:
    """Return name → value; built-in variables win. The spec holds the address of mocks."""
    environment = dict(spec.env)
    for prefix in rules.prefixes:
        variables = {
            f"{prefix}_{name}": value for name, value in _built_in_variables(spec, folders)
        }
        base = f"{prefix}_MOCK_BASE_URL"
        environment |= variables | {base: _reachable(spec.env.get(base, ""), folders)}
    if spec.traceparent:
        there = {name: _reachable(text, folders) for name, text in rules.telemetry.items()}
        environment |= {"TRACEPARENT": spec.traceparent, **there}
    return environment


def _built_in_variables(spec: StepSpec, folders: Folders) -> Iterator[tuple[str, str]]:
    yield "EXECUTION_ID", spec.execution_id
    yield "SUITE_ID", spec.suite_id
    yield "SOURCE_SUITE_ID", spec.source_suite_id
    yield "PROFILE", spec.profile
    yield "STEP_ID", spec.node.id
    yield "STEP_NAME", spec.node.name
    yield "STEP_KIND", spec.node.kind
    yield "ATTEMPT", str(spec.attempt)
    yield "WORKSPACE_DIR", folders.workspace
    yield "STEP_DIR", folders.step
    yield "ARTIFACTS_DIR", folders.artifacts
    for key, url in spec.mock_urls.items():
        yield mock_variable(key), _reachable(url, folders)


def _reachable(url: str, folders: Folders) -> str:
    """Replace a loopback host by the name under which a container reaches this host."""
    parts = urlsplit(url)
    if folders.own_host or parts.hostname not in _LOOPBACK:
        return url
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit(parts._replace(netloc=GATEWAY_HOST + port))


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRules:
    """The installation's rules for every step."""

    environment: StepEnvironmentRules = field(default_factory=StepEnvironmentRules)
    default_images: Mapping[str, str] = field(default_factory=dict)
    max_memory_bytes: int = 4096 * _MIB
    max_cpus: float = 4


def launch_of(
    spec: StepSpec,
    rules: LaunchRules,
    owner: UnitOwner,
    *,
    folders: Callable[[str, str], Folders],
    fetch: Callable[[], Awaitable[bytes]],
    started_at: str,
) -> Launch:
    """Return the launch of a step; `folders(unit name, workspace name)` is the runtime's.

    Raises CommandInvalid.
    """
    node, run_id = spec.node, spec.execution_id
    name = ownership.unit_name(run_id, node.id, spec.attempt)
    workspace = ownership.volume_name(run_id, node.import_path)
    return Launch(
        name=name,
        run_id=run_id,
        step_id=node.id,
        kind=node.kind,
        attempt=spec.attempt,
        image=image(node, rules.default_images),
        program=program(node),
        environment=step_environment(spec, rules.environment, folders(name, workspace)),
        workspace=SharedDirectory(name=workspace, fetch=fetch),
        networks=ownership.networks(spec),
        ports=node.ports,
        limits=limits(node, rules),
        labels=ownership.step_labels(spec, owner, started_at=started_at),
        run_labels=ownership.run_labels(spec, owner),
    )


def limits(node: StepNode, rules: LaunchRules) -> UnitLimits:
    default = _SERVICE_LIMITS if node.kind == "service" else _STEP_LIMITS
    return UnitLimits(
        memory_bytes=min(node.memory_bytes or default.memory_bytes, rules.max_memory_bytes),
        cpus=min(node.cpus or default.cpus, rules.max_cpus),
        pids=default.pids,
    )
