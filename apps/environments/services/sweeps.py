"""Reaps, the side of runners: take a part, say how far it is, and end it.

A part is held under a lease. The next runner that reaches its resources goes on after its end.
(reference: control-plane 17)
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q

from apps.environments.domain.inventory import run_id_of, state_of_group
from apps.environments.domain.orchestrators import OrchestratorState
from apps.environments.domain.reaps import (
    MOST_WARNINGS,
    SWEEP_LEASE,
    SweepPart,
    SweepProgress,
)
from apps.environments.domain.states import OPEN_STATES, ReapState
from apps.environments.models import Reap, ReapPart
from apps.environments.selectors import (
    facts_about,
    gone_supervisors,
    removed_counts,
    unpack_seen,
)
from apps.environments.services.inventory_looks import ENVIRONMENTS_NUDGE, raise_version
from apps.observability.api import metrics
from apps.streams.api import nudge, unit_of_work
from kernel import clock

_OPEN = [str(ReapState.READY), str(ReapState.SWEEPING)]


def take_part(agent_id: str, holder: str) -> SweepPart | None:
    """Take a part that this supervisor reaches and nobody holds; None if there is none."""
    for row in ReapPart.objects.filter(state__in=_OPEN).select_related("reap"):
        if agent_id in row.agents and _is_free(row) and _take(row, holder):
            return SweepPart(
                id=str(row.pk),
                agents=frozenset(row.agents),
                resources=unpack_seen(row.resources),
                only_zombies=row.reap.only_zombies,
                run_ids=frozenset(row.reap.run_ids),
            )
    return None


def _is_free(row: ReapPart) -> bool:
    expires_at = row.lease_expires_at
    return row.state == ReapState.READY or (expires_at is not None and expires_at < clock.now())


@unit_of_work
def _take(row: ReapPart, holder: str) -> bool:
    raise_version()
    now = clock.now()
    free = Q(state=ReapState.READY) | Q(lease_expires_at__lt=now)
    taken = ReapPart.objects.filter(free, pk=row.pk, state__in=_OPEN).update(
        state=ReapState.SWEEPING, holder=holder, lease_expires_at=now + SWEEP_LEASE
    )
    if taken:
        Reap.objects.filter(pk=row.reap_id, state=ReapState.READY).update(state=ReapState.SWEEPING)
        nudge(ENVIRONMENTS_NUDGE)
    return bool(taken)


@unit_of_work
def report_progress(part_id: str, holder: str, progress: SweepProgress) -> bool:
    """Store what is gone so far and renew the lease; False if another runner has taken the part."""
    return _update(part_id, holder, progress, {"lease_expires_at": clock.now() + SWEEP_LEASE})


@unit_of_work
def end_part(part_id: str, holder: str, progress: SweepProgress) -> bool:
    """Store the end of a part, and with the last one that of its reap; False as above."""
    raise_version()
    if not _update(part_id, holder, progress, {"state": ReapState.DONE, "resources": b""}):
        return False
    row = ReapPart.objects.select_related("reap").get(pk=part_id)
    others = ReapPart.objects.filter(reap_id=row.reap_id).exclude(state=ReapState.DONE)
    if not others.exists():
        close_reap(row.reap, clock.now())
    return True


def _update(part_id: str, holder: str, progress: SweepProgress, changes: dict[str, object]) -> bool:
    mine = ReapPart.objects.filter(pk=part_id, holder=holder, state=ReapState.SWEEPING)
    changed = mine.update(
        removed_containers=progress.count("container"),
        removed_networks=progress.count("network"),
        removed_volumes=progress.count("volume"),
        warnings=list(progress.warnings),
        **changes,
    )
    nudge(ENVIRONMENTS_NUDGE)
    return bool(changed)


def close_reap(row: Reap, now: datetime, warning: str = "") -> None:
    """Store the end of a reap with the counts of its parts; in the caller's unit of work."""
    parts = list(ReapPart.objects.filter(reap_id=row.pk))
    containers, networks, volumes = removed_counts(row)
    warnings = dict.fromkeys(
        (*row.warnings, *(text for part in parts for text in part.warnings), warning)
    )
    Reap.objects.filter(pk=row.pk).update(
        state=ReapState.DONE,
        removed_containers=containers,
        removed_networks=networks,
        removed_volumes=volumes,
        warnings=[text for text in warnings if text][:MOST_WARNINGS],
        marked=b"",
        finished_at=now,
    )
    ReapPart.objects.filter(reap_id=row.pk).update(state=ReapState.DONE, resources=b"")
    metrics.count("partita.reap.removed", containers + networks + volumes)
    nudge(ENVIRONMENTS_NUDGE)


def has_open_reaps() -> bool:
    """Return whether there is anything to mark, to take or to end."""
    return Reap.objects.filter(state__in=OPEN_STATES).exists()


def is_sweepable(part: SweepPart, run_id: str) -> bool:
    """Return whether what belongs to the run may be removed now.

    For a zombie sweep its orchestrator must still be dead: no kept world, no run that came back.
    """
    if not part.only_zombies:
        return True
    now = clock.now()
    group = [each for each in part.resources if run_id_of(each.resource) == run_id]
    facts = facts_about(group, gone=gone_supervisors(now), now=now)
    return bool(group) and state_of_group(group, facts) is OrchestratorState.DEAD
