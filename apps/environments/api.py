"""Environments: what runs left or hold on runtimes, seen and removed. Depends on executions.

Runners report their looks and sweep; see `apps.workers`. Nothing here knows a runtime.
"""

from __future__ import annotations

from apps.environments.domain.documents import (
    CleanupResult,
    ContainerDocument,
    EnvironmentDocument,
    ReapDocument,
    SnapshotDocument,
    SnapshotSummary,
    UsageDocument,
)
from apps.environments.domain.inventory import (
    RESOURCE_KINDS,
    EnvironmentStatus,
    RuntimeLook,
    run_id_of,
)
from apps.environments.domain.reaps import ALL_ENVIRONMENTS, SweepPart, SweepProgress
from apps.environments.services.inventory_looks import LOOK_NUDGE, due_looks, record_look
from apps.environments.services.reaps import (
    continue_reaps,
    reap,
    reap_all,
    reap_zombies_if_set,
)
from apps.environments.services.snapshots import environment_of_run, snapshot
from apps.environments.services.sweeps import (
    end_part,
    has_open_reaps,
    is_sweepable,
    report_progress,
    take_part,
)
