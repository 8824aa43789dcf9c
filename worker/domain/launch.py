"""From a step spec to a launch on some runtime (reference: control-plane 14.2, 14.3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from worker.domain import ownership
from worker.domain.command import image, program
from worker.domain.environment import Folders, StepEnvironmentRules, step_environment
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import Launch, UnitLimits, WorkDirectory
from worker.domain.step_spec import StepNode, StepSpec

_MIB: Final = 2**20
_STEP_LIMITS: Final = UnitLimits(memory_bytes=512 * _MIB, cpus=1, pids=256)
_SERVICE_LIMITS: Final = UnitLimits(memory_bytes=1024 * _MIB, cpus=2, pids=1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRules:
    """What the installation decides about every step."""

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
    """`folders(unit name, workspace name)` is the runtime's. Raises CommandInvalid."""
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
        workspace=WorkDirectory(name=workspace, fetch=fetch),
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
