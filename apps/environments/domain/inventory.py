"""The join of what runtimes list with runs and supervisors: the tracked environments.

(reference: control-plane 17)
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from apps.environments.domain.orchestrators import (
    DeadTime,
    OrchestratorRecord,
    OrchestratorState,
    death_reason,
    is_in_teardown,
    is_zombie,
    orchestrator_state,
)
from apps.executions.api import RunFacts
from kernel.agent_protocol import UNKNOWN_TIME, RuntimeResource, StepUsage
from kernel.ids import shorten, slug

RUN_ID: Final = "partita.run_id"
WORKSPACE_ID: Final = "partita.workspace_id"
ORCHESTRATOR_ID: Final = "partita.orchestrator_id"
BACKEND_ID: Final = "partita.backend_id"
JOB_ID: Final = "partita.job_id"
STEP: Final = "partita.step"
NO_NAMES: Final = {  # label → what stands where it is missing
    "partita.suite": "Unattributed sandbox",
    "partita.owner": "Unknown owner",
    "partita.profile": "No profile label",
}
RUNNING: Final = frozenset({"running", "paused"})
BROKEN: Final = frozenset({"dead", "restarting"})
_ORPHAN: Final = "orphan-"
_ID_LENGTH: Final = 128
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


class EnvironmentStatus(StrEnum):
    """In the order in which environments are sorted."""

    ZOMBIE = "Zombie"
    DEGRADED = "Degraded"
    RUNNING = "Running"
    RESIDUAL = "Residual"
    UNKNOWN = "Unknown"


_ORDER: Final = {status: number for number, status in enumerate(EnvironmentStatus)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeLook:
    """What a supervisor saw on its runtime; `gone`: incarnations without a process on its host.

    `available` is False, with no resources, while the runtime does not answer.
    """

    agent_id: str
    host_id: str
    looked_at: datetime
    available: bool
    resources: tuple[RuntimeResource, ...] = ()
    gone: frozenset[str] = frozenset()
    omitted: int = 0  # resources beyond the limit of a look


@dataclass(frozen=True, slots=True)
class SeenResource:
    """A resource and the supervisors that reach it."""

    resource: RuntimeResource
    agents: frozenset[str]

    @property
    def kind(self) -> str:
        return self.resource.kind

    def label(self, name: str) -> str:
        return self.resource.labels.get(name, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryFacts:
    """What the store knows beside the looks: runs, supervisors, dead times by run, usage by job."""

    now: datetime
    runs: Mapping[str, RunFacts] = field(default_factory=dict)
    orchestrators: Mapping[str, OrchestratorRecord] = field(default_factory=dict)
    dead_times: Mapping[str, DeadTime] = field(default_factory=dict)
    usage: Mapping[str, StepUsage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedEnvironment:
    """What there is of a run, or an orphan: `run_id` is empty for it.

    `workspace_id` is empty where no label and no run says it: administrators alone see it.
    """

    sandbox_id: str
    run_id: str
    workspace_id: str
    backend_id: str
    suite: str
    owner: str
    profile: str
    status: EnvironmentStatus
    state: OrchestratorState
    resources: tuple[SeenResource, ...]
    run: RunFacts | None = None
    orchestrator_id: str = ""
    orchestrator: OrchestratorRecord | None = None
    dead: DeadTime | None = None
    zombie_reason: str = ""
    started_at: datetime | None = None
    warnings: tuple[str, ...] = ()
    usage: Mapping[str, StepUsage] = field(default_factory=dict)  # by job id

    @property
    def is_zombie(self) -> bool:
        return self.status is EnvironmentStatus.ZOMBIE

    def of_kind(self, kind: str) -> tuple[RuntimeResource, ...]:
        return tuple(each.resource for each in self.resources if each.kind == kind)

    @property
    def summary(self) -> str:
        counts = (f"{len(self.of_kind(kind))} {kind}s" for kind in RESOURCE_KINDS)
        return ", ".join(counts)

    @property
    def sort_key(self) -> tuple[int, float, str]:
        started = self.started_at.timestamp() if self.started_at else 0.0
        return _ORDER[self.status], -started, self.sandbox_id


RESOURCE_KINDS: Final = ("container", "network", "volume")  # in the order of their removal


def unite_looks(looks: Iterable[RuntimeLook]) -> list[SeenResource]:
    """Return each resource once, as its newest look has it, with every supervisor that lists it.

    Several supervisors list it if they share an engine.
    """
    newest: dict[tuple[str, str], RuntimeResource] = {}
    agents: dict[tuple[str, str], set[str]] = defaultdict(set)
    for look in sorted(looks, key=lambda look: (look.looked_at, look.agent_id)):
        for resource in look.resources:
            key = resource.kind, resource.id
            newest[key] = resource
            agents[key].add(look.agent_id)
    return [SeenResource(newest[key], frozenset(agents[key])) for key in newest]


def run_id_of(resource: RuntimeResource) -> str:
    """Return the run that the label names; empty without one, and for what is not an id."""
    run_id = resource.labels.get(RUN_ID, "")
    return run_id if _ID.match(run_id) and not run_id.startswith(_ORPHAN) else ""


def sandbox_id_of(resource: RuntimeResource) -> str:
    """Return the id of the run, or `orphan-<kind>-<slug of name>` without a run label."""
    orphan = f"{_ORPHAN}{resource.kind}-{slug(resource.name)}"
    return run_id_of(resource) or shorten(orphan, limit=_ID_LENGTH)


def group_resources(seen: Iterable[SeenResource]) -> dict[str, list[SeenResource]]:
    """Return the resources by sandbox id; each is in exactly one group."""
    groups: dict[str, list[SeenResource]] = defaultdict(list)
    for each in seen:
        groups[sandbox_id_of(each.resource)].append(each)
    return dict(groups)


def track(seen: Iterable[SeenResource], facts: InventoryFacts) -> list[TrackedEnvironment]:
    """Return the environments: zombies first, then by status, newest start and id."""
    groups = group_resources(seen)
    tracked = [_track_one(sandbox_id, group, facts) for sandbox_id, group in groups.items()]
    return sorted(tracked, key=lambda each: each.sort_key)


def dead_runs(seen: Iterable[SeenResource], facts: InventoryFacts) -> set[str]:
    """Return the runs with containers at work whose orchestrator is dead."""
    return {
        sandbox_id
        for sandbox_id, group in group_resources(seen).items()
        if has_running_container(group) and state_of_group(group, facts) is OrchestratorState.DEAD
    }


def state_of_group(group: Sequence[SeenResource], facts: InventoryFacts) -> OrchestratorState:
    """Return the state of the orchestrator of the resources of one run."""
    return _orchestrator_of(group, facts)[0]


def has_running_container(group: Iterable[SeenResource]) -> bool:
    return any(each.kind == "container" and each.resource.state in RUNNING for each in group)


def orchestrator_id_of(group: Sequence[SeenResource], run: RunFacts | None) -> str:
    """Return the supervisor that the run is bound to, else the one that made what is newest."""
    if run is not None and run.agent_id:
        return run.agent_id
    labeled = [each for each in group if each.label(ORCHESTRATOR_ID)]
    if not labeled:
        return ""
    return max(labeled, key=lambda each: each.resource.created_at).label(ORCHESTRATOR_ID)


def _orchestrator_of(
    group: Sequence[SeenResource], facts: InventoryFacts
) -> tuple[OrchestratorState, str, OrchestratorRecord | None]:
    run_id = run_id_of(group[0].resource)
    run = facts.runs.get(run_id)
    orchestrator_id = orchestrator_id_of(group, run) if run_id else ""
    record = facts.orchestrators.get(orchestrator_id)
    return orchestrator_state(run_id, run, record, now=facts.now), orchestrator_id, record


def _track_one(
    sandbox_id: str, group: Sequence[SeenResource], facts: InventoryFacts
) -> TrackedEnvironment:
    run_id = run_id_of(group[0].resource)
    run = facts.runs.get(run_id)
    state, orchestrator_id, record = _orchestrator_of(group, facts)
    dead = facts.dead_times.get(run_id) if run_id else None
    zombie = is_zombie(
        state,
        dead,
        is_running=has_running_container(group),
        in_teardown=is_in_teardown(run, now=facts.now),
    )
    names, warnings = _names_of(group)
    return TrackedEnvironment(
        sandbox_id=sandbox_id,
        run_id=run_id,
        workspace_id=run.workspace_id if run else _common_label(group, WORKSPACE_ID),
        backend_id=run.backend_id if run else _common_label(group, BACKEND_ID),
        suite=run.suite_title if run else names["partita.suite"],
        owner=names["partita.owner"],
        profile=run.profile if run else names["partita.profile"],
        status=_status_of(group, run, zombie=zombie),
        state=state,
        resources=tuple(sorted(group, key=_place)),
        run=run,
        orchestrator_id=orchestrator_id,
        orchestrator=record,
        dead=dead,
        zombie_reason=death_reason(run, record, now=facts.now) if zombie else "",
        started_at=run.started_at if run else _first_created(group),
        warnings=tuple(warnings),
        usage=_usage_of(group, facts),
    )


def _first_created(group: Sequence[SeenResource]) -> datetime | None:
    known = (each.resource.created_at for each in group)
    return min((each for each in known if each != UNKNOWN_TIME), default=None)


def _place(each: SeenResource) -> tuple[int, datetime, str]:
    return RESOURCE_KINDS.index(each.kind), each.resource.created_at, each.resource.name


def _names_of(group: Sequence[SeenResource]) -> tuple[dict[str, str], list[str]]:
    """Return the labels that name an environment, and a warning for each that nothing has."""
    names, warnings = {}, []
    for label, missing in NO_NAMES.items():
        labeled = [each.resource.labels[label] for each in group if label in each.resource.labels]
        names[label] = labeled[0] if labeled else missing
        if not labeled:
            warnings.append(f"the label {label} is missing")
    return names, warnings


def _common_label(group: Sequence[SeenResource], label: str) -> str:
    """Return the label's value if all agree, else an empty text."""
    values = {each.label(label) for each in group}
    return values.pop() if len(values) == 1 else ""


def _status_of(
    group: Sequence[SeenResource], run: RunFacts | None, *, zombie: bool
) -> EnvironmentStatus:
    if zombie:
        return EnvironmentStatus.ZOMBIE
    is_active = run is not None and not run.is_over
    containers = [each.resource for each in group if each.kind == "container"]
    if any(each.state in BROKEN or (is_active and each.exit_code) for each in containers):
        return EnvironmentStatus.DEGRADED
    if has_running_container(group):
        return EnvironmentStatus.RUNNING
    return EnvironmentStatus.RESIDUAL if group else EnvironmentStatus.UNKNOWN


def _usage_of(group: Sequence[SeenResource], facts: InventoryFacts) -> dict[str, StepUsage]:
    jobs = (
        each.label(JOB_ID)
        for each in group
        if each.kind == "container" and each.resource.state in RUNNING
    )
    return {job: facts.usage[job] for job in jobs if job in facts.usage}
