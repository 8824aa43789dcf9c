"""The documents of environments, as on the wire (reference: control-plane 17)."""

from __future__ import annotations

from typing import TypedDict


class UsageDocument(TypedDict):
    """`memoryPercent` is of the limit; both are 0 while no limit is known."""

    cpuPercent: float
    memoryBytes: int
    memoryLimitBytes: int
    memoryPercent: float


class ContainerDetails(TypedDict, total=False):
    """What a container may have, by its state and its labels."""

    stepId: str
    createdAt: str
    startedAt: str
    exitCode: int
    usage: UsageDocument


class ContainerDocument(ContainerDetails):
    id: str
    name: str
    image: str
    state: str
    status: str
    ports: list[str]


class NetworkDocument(TypedDict):
    id: str
    name: str
    driver: str
    scope: str


class VolumeDocument(TypedDict):
    name: str
    driver: str
    mountpoint: str


class EnvironmentDetails(TypedDict, total=False):
    """What is known of an environment, by its labels, its run and its supervisor."""

    startedAt: str
    lastHeartbeatAt: str
    orchestratorPid: int
    orchestratorId: str
    zombieReason: str
    zombieSince: str
    backendId: str
    workspaceId: str
    executionStatus: str
    keepAliveUntil: str


class EnvironmentDocument(EnvironmentDetails):
    """`sandboxId` is the run's id, or `orphan-<kind>-<name>` of what has no run.

    `status` is Zombie, Degraded, Running, Residual or Unknown; `orchestratorState` is alive, stale,
    dead or unknown. `zombieReason` says in words why it is a zombie.
    """

    sandboxId: str
    runId: str
    suite: str
    owner: str
    profile: str
    status: str
    summary: str
    orchestratorState: str
    isZombie: bool
    canReap: bool
    resourceUsage: UsageDocument
    containers: list[ContainerDocument]
    networks: list[NetworkDocument]
    volumes: list[VolumeDocument]
    warnings: list[str]


class SnapshotSummary(TypedDict):
    activeSandboxes: int
    zombieSandboxes: int
    containers: int
    networks: int
    volumes: int
    totalCpuPercent: float
    totalMemoryBytes: int


class CleanupResult(TypedDict):
    """What a reap removed, or with `dryRun` would remove; `scope` is `sandbox` or `global`."""

    scope: str
    target: str
    removedContainers: int
    removedNetworks: int
    removedVolumes: int
    warnings: list[str]
    dryRun: bool


class ReapEnd(TypedDict, total=False):
    """What a reap has once it is done."""

    finishedAt: str
    result: CleanupResult


class ReapDocument(ReapEnd):
    """A reap at work, or one that ended a short time ago.

    `state` is marking (live runs are canceled), ready (a runner is awaited), sweeping or done.
    `marked` counts the resources to remove, `gone` those that are no longer there.
    """

    id: str
    scope: str
    target: str
    onlyZombies: bool
    state: str
    requestedBy: str
    marked: int
    gone: int
    createdAt: str
    warnings: list[str]


class SnapshotDocument(TypedDict):
    containerRuntimeAvailable: bool
    updatedAt: str
    summary: SnapshotSummary
    sandboxes: list[EnvironmentDocument]
    reaps: list[ReapDocument]
    warnings: list[str]
