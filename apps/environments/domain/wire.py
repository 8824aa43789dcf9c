"""Tracked environments as the documents of the wire (reference: control-plane 17)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

from apps.environments.domain.documents import (
    ContainerDocument,
    EnvironmentDocument,
    NetworkDocument,
    ReapDocument,
    SnapshotDocument,
    SnapshotSummary,
    UsageDocument,
    VolumeDocument,
)
from apps.environments.domain.inventory import (
    JOB_ID,
    RUNNING,
    STEP,
    EnvironmentStatus,
    RuntimeLook,
    TrackedEnvironment,
)
from kernel.agent_protocol import UNKNOWN_TIME, RuntimeResource, StepUsage
from kernel.clock import rfc3339

NO_RUNTIME: Final = (
    "no runner has listed its runtime in the last 60 s: start `up` or a runner, and the container "
    "runtime that it uses"
)
_SEARCHED: Final = ("sandboxId", "suite", "owner", "profile", "backendId", "status")


def environment_document(tracked: TrackedEnvironment, *, can_reap: bool) -> EnvironmentDocument:
    containers = tracked.of_kind("container")
    document: EnvironmentDocument = {
        "sandboxId": tracked.sandbox_id,
        "runId": tracked.run_id,
        "suite": tracked.suite,
        "owner": tracked.owner,
        "profile": tracked.profile,
        "status": str(tracked.status),
        "summary": tracked.summary,
        "orchestratorState": str(tracked.state),
        "isZombie": tracked.is_zombie,
        "canReap": can_reap and bool(tracked.resources),
        "resourceUsage": _sum_usage([_usage_of(each, tracked) for each in containers]),
        "containers": [_container(each, tracked) for each in containers],
        "networks": [_network(each) for each in tracked.of_kind("network")],
        "volumes": [_volume(each) for each in tracked.of_kind("volume")],
        "warnings": list(tracked.warnings),
    }
    _add_times(document, tracked)
    _add_orchestrator(document, tracked)
    if tracked.backend_id:
        document["backendId"] = tracked.backend_id
    if tracked.workspace_id:
        document["workspaceId"] = tracked.workspace_id
    if tracked.run:
        document["executionStatus"] = tracked.run.status
    return document


def _add_times(document: EnvironmentDocument, tracked: TrackedEnvironment) -> None:
    if tracked.started_at:
        document["startedAt"] = rfc3339(tracked.started_at)
    if tracked.is_zombie and tracked.dead:
        document["zombieReason"] = tracked.zombie_reason
        document["zombieSince"] = rfc3339(tracked.dead.since)
    if tracked.run and tracked.run.keep_alive_until:
        document["keepAliveUntil"] = rfc3339(tracked.run.keep_alive_until)


def _add_orchestrator(document: EnvironmentDocument, tracked: TrackedEnvironment) -> None:
    if tracked.orchestrator_id:
        document["orchestratorId"] = tracked.orchestrator_id
    if record := tracked.orchestrator:
        document["lastHeartbeatAt"] = rfc3339(record.last_heartbeat_at)
        if record.pid:
            document["orchestratorPid"] = record.pid


def _container(resource: RuntimeResource, tracked: TrackedEnvironment) -> ContainerDocument:
    document: ContainerDocument = {
        "id": resource.id,
        "name": resource.name,
        "image": resource.image,
        "state": resource.state,
        "status": resource.status,
        "ports": list(resource.ports),
    }
    if resource.created_at != UNKNOWN_TIME:
        document["createdAt"] = rfc3339(resource.created_at)
    if STEP in resource.labels:
        document["stepId"] = resource.labels[STEP]
    if resource.started_at:
        document["startedAt"] = rfc3339(resource.started_at)
    if resource.exit_code is not None:
        document["exitCode"] = resource.exit_code
    if resource.state in RUNNING:
        document["usage"] = _usage_of(resource, tracked)
    return document


def _network(resource: RuntimeResource) -> NetworkDocument:
    return {
        "id": resource.id,
        "name": resource.name,
        "driver": resource.driver,
        "scope": resource.scope,
    }


def _volume(resource: RuntimeResource) -> VolumeDocument:
    return {
        "name": resource.name,
        "driver": resource.driver,
        "mountpoint": resource.mountpoint,
    }


def _usage_of(resource: RuntimeResource, tracked: TrackedEnvironment) -> UsageDocument:
    if resource.state not in RUNNING:
        return _usage(0.0, 0, 0)
    used = tracked.usage.get(resource.labels.get(JOB_ID, ""), StepUsage())
    return _usage(used.cpu_percent or 0.0, used.memory_bytes or 0, resource.memory_limit_bytes or 0)


def _sum_usage(usages: Sequence[UsageDocument]) -> UsageDocument:
    return _usage(
        sum(each["cpuPercent"] for each in usages),
        sum(each["memoryBytes"] for each in usages),
        sum(each["memoryLimitBytes"] for each in usages),
    )


def _usage(cpu_percent: float, memory_bytes: int, limit_bytes: int) -> UsageDocument:
    return {
        "cpuPercent": round(cpu_percent, 2),
        "memoryBytes": memory_bytes,
        "memoryLimitBytes": limit_bytes,
        "memoryPercent": round(100 * memory_bytes / limit_bytes, 2) if limit_bytes else 0.0,
    }


def snapshot_document(
    environments: Sequence[EnvironmentDocument],
    *,
    reaps: Iterable[ReapDocument],
    available: bool,
    warnings: Iterable[str],
    now: datetime,
) -> SnapshotDocument:
    """Return the snapshot of these environments; without a runtime, one warning says so."""
    return {
        "containerRuntimeAvailable": available,
        "updatedAt": rfc3339(now),
        "summary": _summary(environments),
        "sandboxes": list(environments),
        "reaps": list(reaps),
        "warnings": list(warnings) if available else [NO_RUNTIME],
    }


def _summary(environments: Sequence[EnvironmentDocument]) -> SnapshotSummary:
    usages = [each["resourceUsage"] for each in environments]
    live = (EnvironmentStatus.RUNNING, EnvironmentStatus.DEGRADED)
    return {
        "activeSandboxes": sum(each["status"] in live for each in environments),
        "zombieSandboxes": sum(each["isZombie"] for each in environments),
        "containers": sum(len(each["containers"]) for each in environments),
        "networks": sum(len(each["networks"]) for each in environments),
        "volumes": sum(len(each["volumes"]) for each in environments),
        "totalCpuPercent": round(sum(usage["cpuPercent"] for usage in usages), 2),
        "totalMemoryBytes": sum(usage["memoryBytes"] for usage in usages),
    }


def look_warnings(looks: Iterable[RuntimeLook]) -> list[str]:
    """Return a warning for each runtime that did not answer, or that lists too much."""
    warnings = []
    for look in looks:
        if not look.available:
            warnings.append(f"{look.agent_id}: its runtime did not answer the last look")
        if look.omitted:
            shown = len(look.resources)
            warnings.append(
                f"{look.agent_id}: only {shown} of {shown + look.omitted} resources are shown"
            )
    return warnings


def is_match(document: EnvironmentDocument, *, statuses: frozenset[str], words: str) -> bool:
    """Return whether the environment has one of the statuses and contains the words anywhere.

    No status stands for all of them. Names of containers, networks and volumes are searched too.
    """
    if statuses and document["status"] not in statuses:
        return False
    if not words:
        return True
    wanted = words.casefold()
    texts: Callable[[], Iterable[str]] = lambda: (  # noqa: E731 - read only until one matches
        *(str(document.get(name, "")) for name in _SEARCHED),
        *(f"{each['name']} {each['image']}" for each in document["containers"]),
        *(each["name"] for each in document["networks"]),
        *(each["name"] for each in document["volumes"]),
    )
    return any(wanted in text.casefold() for text in texts())
