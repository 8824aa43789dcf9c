"""From a step spec to a launch on some runtime (reference: control-plane 14.2, 14.3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from worker.domain import naming
from worker.domain.command import image, program
from worker.domain.environment import EnvironmentRules, Folders, step_environment
from worker.domain.naming import Owner
from worker.domain.runtime import Launch, Limits, Workspace
from worker.domain.step_spec import Node, StepSpec

_MIB: Final = 2**20
_STEP_LIMITS: Final = Limits(memory_bytes=512 * _MIB, cpus=1, pids=256)
_SERVICE_LIMITS: Final = Limits(memory_bytes=1024 * _MIB, cpus=2, pids=1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRules:
    """What the installation decides about every step."""

    environment: EnvironmentRules = field(default_factory=EnvironmentRules)
    default_images: Mapping[str, str] = field(default_factory=dict)
    max_memory_bytes: int = 4096 * _MIB
    max_cpus: float = 4


def launch_of(
    spec: StepSpec,
    rules: LaunchRules,
    owner: Owner,
    *,
    folders: Callable[[str, str], Folders],
    fetch: Callable[[], Awaitable[bytes]],
    started_at: str,
) -> Launch:
    """`folders(unit name, workspace name)` is the runtime's. Raises CommandInvalid."""
    node, run_id = spec.node, spec.execution_id
    name = naming.unit_name(run_id, node.id, spec.attempt)
    workspace = naming.volume_name(run_id, node.import_path)
    return Launch(
        name=name,
        run_id=run_id,
        step_id=node.id,
        kind=node.kind,
        attempt=spec.attempt,
        image=image(node, rules.default_images),
        program=program(node),
        environment=step_environment(spec, rules.environment, folders(name, workspace)),
        workspace=Workspace(name=workspace, fetch=fetch),
        networks=naming.networks(spec),
        ports=node.ports,
        limits=limits(node, rules),
        labels=naming.step_labels(spec, owner, started_at=started_at),
        run_labels=naming.run_labels(spec, owner),
    )


def limits(node: Node, rules: LaunchRules) -> Limits:
    default = _SERVICE_LIMITS if node.kind == "service" else _STEP_LIMITS
    return Limits(
        memory_bytes=min(node.memory_bytes or default.memory_bytes, rules.max_memory_bytes),
        cpus=min(node.cpus or default.cpus, rules.max_cpus),
        pids=default.pids,
    )
