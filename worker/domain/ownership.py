"""Names and labels of the resources of a run on a runtime (reference: control-plane 14.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kernel.ids import NAME_LIMIT, shorten, slug
from worker.domain.step_spec import StepSpec

MANAGED: Final = "partita.managed"
INSTALLATION: Final = "partita.installation"
RUN_ID: Final = "partita.run_id"
STEP: Final = "partita.step"
STEP_KIND: Final = "partita.step_kind"
ATTEMPT: Final = "partita.attempt"
STARTED_AT: Final = "partita.started_at"
ORCHESTRATOR: Final = "partita.orchestrator_id"
JOB_ID: Final = "partita.job_id"
MEMORY_LIMIT: Final = "partita.memory_limit_bytes"  # of a container; lists do not tell it
SHELL: Final = "partita.shell"  # the id of the shell that a copy of a unit was made for
GATE: Final = "partita.gate"  # of a unit that was started ahead; its program waits for a release
RELEASED_AT: Final = "partita.released_at"  # of a pod that was started ahead
_STANDBY: Final = "-standby"
_AHEAD: Final = "-ahead"
_OF_STEP: Final = (STEP, STEP_KIND, ATTEMPT, STARTED_AT, JOB_ID, MEMORY_LIMIT, GATE, RELEASED_AT)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitOwner:
    """The owner of units: one supervisor of one installation, on one host."""

    installation_id: str
    orchestrator_id: str
    host_id: str


def unit_name(run_id: str, step_id: str, attempt: int) -> str:
    return shorten(f"partita-{run_id}-{slug(step_id)}-a{attempt}")


def standby_name(run_id: str, step_id: str) -> str:
    """Return the name of what is created ahead for a step that runs again.

    It never equals a unit's name.
    """
    return _name_before_start(run_id, step_id, _STANDBY)


def ahead_name(run_id: str, step_id: str) -> str:
    """Return the name of what is started ahead for a step; it never equals a unit's name."""
    return _name_before_start(run_id, step_id, _AHEAD)


def _name_before_start(run_id: str, step_id: str, suffix: str) -> str:
    name = f"partita-{run_id}-{slug(step_id)}"
    return shorten(name, limit=NAME_LIMIT - len(suffix)) + suffix


def is_name_before_start(name: str) -> bool:
    """Return whether this is the name of what has not become a unit yet."""
    return name.endswith((_STANDBY, _AHEAD))


def helper_name(run_id: str) -> str:
    """Return the name of the run's probe helper; it never equals a unit's name."""
    return shorten(f"partita-{run_id}-probes")


def copy_name(run_id: str, shell_id: str) -> str:
    return shorten(f"partita-{run_id}-shell-{shell_id}")


def network_name(run_id: str, import_path: str = "") -> str:
    return _scope("partita-net", run_id, import_path)


def volume_name(run_id: str, import_path: str = "") -> str:
    return _scope("partita-ws", run_id, import_path)


def _scope(prefix: str, run_id: str, import_path: str) -> str:
    return shorten("-".join(filter(None, (prefix, run_id, slug(import_path)))))


def networks(spec: StepSpec) -> dict[str, tuple[str, ...]]:
    """Return network → names of the step there; the run's own network comes first."""
    node, run_id = spec.node, spec.execution_id
    if not node.import_path:
        return {network_name(run_id): tuple(dict.fromkeys((slug(node.id), node.id)))}
    return {
        network_name(run_id): (slug(node.id),),
        network_name(run_id, node.import_path): tuple(
            dict.fromkeys((node.bare_id, slug(node.bare_id)))
        ),
    }


def run_labels(spec: StepSpec, owner: UnitOwner) -> dict[str, str]:
    """Return the labels of every container, network and volume of the run."""
    return {
        MANAGED: "true",
        INSTALLATION: owner.installation_id,
        RUN_ID: spec.execution_id,
        "partita.workspace_id": spec.workspace_id,
        "partita.suite": spec.suite_id,
        "partita.owner": spec.owner,
        "partita.profile": spec.profile,
        "partita.backend_id": spec.backend_id,
        ORCHESTRATOR: owner.orchestrator_id,
        "partita.host_id": owner.host_id,
    }


def step_labels(spec: StepSpec, owner: UnitOwner, *, started_at: str) -> dict[str, str]:
    return run_labels(spec, owner) | {
        STEP: spec.node.id,
        STEP_KIND: spec.node.kind,
        ATTEMPT: str(spec.attempt),
        STARTED_AT: started_at,
        JOB_ID: spec.job_id,
    }


def without_step(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the run's labels from a step's labels."""
    return {name: value for name, value in labels.items() if name not in _OF_STEP}


def copy_labels(labels: Mapping[str, str], shell_id: str) -> dict[str, str]:
    """Return the labels of a copy of a unit, from the unit's labels.

    Those of the step are empty: an image, and so the containers made from it, inherits the labels
    that it is not given.
    """
    return without_step(labels) | dict.fromkeys(_OF_STEP, "") | {SHELL: shell_id}


def is_owned(labels: Mapping[str, str], installation_id: str) -> bool:
    """Return True for resources of this installation; others are never touched."""
    return labels.get(MANAGED) == "true" and labels.get(INSTALLATION) == installation_id
