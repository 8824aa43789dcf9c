"""Environments: what runs left or hold on runtimes, seen and removed. Depends on executions.

Runners report their looks and sweep; see `apps.workers`. Nothing here knows a runtime.
"""

from __future__ import annotations

from apps.environments.domain.documents import (
    CleanupResult,
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
    RESOURCE_KINDS,
    EnvironmentStatus,
    RuntimeLook,
    SeenResource,
    run_id_of,
)
from apps.environments.domain.orchestrators import OrchestratorState
from apps.environments.domain.reaps import (
    ALL_ENVIRONMENTS,
    ReapInProgress,
    RuntimeNotReached,
    SandboxNotFound,
    SweepPart,
    SweepProgress,
)
from apps.environments.domain.states import ReapState
from apps.environments.services.inventory_looks import (
    ENVIRONMENTS_NUDGE,
    LOOK_NUDGE,
    due_looks,
    record_look,
    watch,
)
from apps.environments.services.reaps import (
    continue_reaps,
    reap,
    reap_all,
    reap_zombies_if_set,
)
from apps.environments.services.snapshots import environment, environment_of_run, snapshot
from apps.environments.services.sweeps import (
    end_part,
    has_open_reaps,
    is_sweepable,
    report_progress,
    take_part,
)

__all__ = [
    "ALL_ENVIRONMENTS",
    "ENVIRONMENTS_NUDGE",
    "LOOK_NUDGE",
    "RESOURCE_KINDS",
    "CleanupResult",
    "ContainerDocument",
    "EnvironmentDocument",
    "EnvironmentStatus",
    "NetworkDocument",
    "OrchestratorState",
    "ReapDocument",
    "ReapInProgress",
    "ReapState",
    "RuntimeLook",
    "RuntimeNotReached",
    "SandboxNotFound",
    "SeenResource",
    "SnapshotDocument",
    "SnapshotSummary",
    "SweepPart",
    "SweepProgress",
    "UsageDocument",
    "VolumeDocument",
    "continue_reaps",
    "due_looks",
    "end_part",
    "environment",
    "environment_of_run",
    "has_open_reaps",
    "is_sweepable",
    "reap",
    "reap_all",
    "reap_zombies_if_set",
    "record_look",
    "report_progress",
    "run_id_of",
    "snapshot",
    "take_part",
    "watch",
]
