"""The inventory: looks of the last minute, joined with runs, supervisors and reaps.

(reference: control-plane 17)
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec
from django.db.models import Prefetch, Q

from apps.accounts.api import Principal, Role, visible_workspaces
from apps.agents.api import list_agents, online_agents
from apps.environments.domain.documents import (
    EnvironmentDocument,
    ReapDocument,
    SnapshotDocument,
)
from apps.environments.domain.inventory import (
    InventoryFacts,
    RuntimeLook,
    SeenResource,
    TrackedEnvironment,
    run_id_of,
    sandbox_id_of,
    track,
    unite_looks,
)
from apps.environments.domain.orchestrators import DeadTime, OrchestratorRecord
from apps.environments.domain.reaps import (
    SHOWN_FOR,
    cleanup_result,
    scope_of,
)
from apps.environments.domain.states import OPEN_STATES, ReapState
from apps.environments.domain.wire import (
    environment_document,
    is_match,
    look_warnings,
    snapshot_document,
)
from apps.environments.models import DeadRun, Reap, ReapPart, StoredLook
from apps.executions.api import run_facts, usage_by_job
from kernel import clock
from kernel.agent_protocol import RuntimeResource

FRESH_FOR: Final = timedelta(seconds=60)
_RESOURCES: Final = msgspec.json.Decoder(tuple[RuntimeResource, ...])
_SEEN: Final = msgspec.json.Decoder(tuple[SeenResource, ...])
_ENCODER: Final = msgspec.json.Encoder(enc_hook=dict)  # of labels that are no dict


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Who looks: the workspaces to show (None: all), and those in which the caller may reap."""

    workspaces: frozenset[str] | None
    may_reap: bool

    def sees(self, tracked: TrackedEnvironment) -> bool:
        return self.workspaces is None or tracked.workspace_id in self.workspaces


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryState:
    """The environments of all workspaces and the looks that they are from."""

    now: datetime
    looks: tuple[RuntimeLook, ...]
    environments: tuple[TrackedEnvironment, ...]

    @property
    def available(self) -> bool:
        return any(look.available for look in self.looks)


def viewer_of(principal: Principal) -> Viewer:
    workspaces: frozenset[UUID] | None = visible_workspaces(principal)
    return Viewer(
        workspaces=None if workspaces is None else frozenset(map(str, workspaces)),
        may_reap=principal.has_role(Role.RUNNER),
    )


def pack_resources(resources: Sequence[RuntimeResource] | Sequence[SeenResource]) -> bytes:
    return zlib.compress(_ENCODER.encode(list(resources)), 1)


def unpack_resources(packed: bytes | memoryview) -> tuple[RuntimeResource, ...]:
    return _RESOURCES.decode(zlib.decompress(bytes(packed)))


def unpack_seen(packed: bytes | memoryview) -> tuple[SeenResource, ...]:
    return _SEEN.decode(zlib.decompress(bytes(packed)))


def fresh_looks(now: datetime) -> tuple[RuntimeLook, ...]:
    """Return the looks of the last 60 s."""
    rows = StoredLook.objects.filter(looked_at__gte=now - FRESH_FOR).order_by("agent_id")
    return tuple(
        RuntimeLook(
            agent_id=row.agent_id,
            host_id=row.host_id,
            looked_at=row.looked_at,
            available=row.available,
            resources=unpack_resources(row.resources),
            gone=frozenset(row.gone),
            omitted=row.omitted,
        )
        for row in rows
    )


def gone_supervisors(now: datetime) -> frozenset[str]:
    """Return the incarnations that the looks of the last 60 s found without a process."""
    rows = StoredLook.objects.filter(looked_at__gte=now - FRESH_FOR)
    return frozenset().union(*rows.values_list("gone", flat=True))


def runners_without_look(since: datetime) -> frozenset[str]:
    """Return the online runners whose newest look is older."""
    looked = set(StoredLook.objects.filter(looked_at__gte=since).values_list("agent_id", flat=True))
    return frozenset(
        agent.agent_id
        for agent in online_agents()
        if agent.kind == "runner" and agent.agent_id not in looked
    )


def facts_about(
    seen: Iterable[SeenResource], *, gone: Collection[str], now: datetime
) -> InventoryFacts:
    """Read what the store knows of these resources, without usage.

    `gone`: incarnations of supervisors without a process.
    """
    run_ids = {run_id for each in seen if (run_id := run_id_of(each.resource))}
    dead = DeadRun.objects.filter(run_id__in=list(run_ids)) if run_ids else ()
    return InventoryFacts(
        now=now,
        runs=run_facts(run_ids),
        orchestrators={
            agent.agent_id: OrchestratorRecord(
                agent_id=agent.agent_id,
                pid=agent.pid,
                last_heartbeat_at=agent.last_heartbeat_at,
                is_gone=agent.incarnation in gone,
            )
            for agent in list_agents()
        },
        dead_times={
            row.run_id: DeadTime(since=row.dead_since, seen_at=row.seen_at) for row in dead
        },
    )


def read_inventory(*, only: str = "") -> InventoryState:
    """Join the looks of the last 60 s with the store; `only`: one environment, by its id."""
    now = clock.now()
    looks = fresh_looks(now)
    seen = unite_looks(looks)
    if only:
        seen = [each for each in seen if sandbox_id_of(each.resource) == only]
    gone = frozenset().union(*(look.gone for look in looks))
    facts = facts_about(seen, gone=gone, now=now)
    facts = replace(facts, usage=usage_by_job(facts.runs))
    return InventoryState(now=now, looks=looks, environments=tuple(track(seen, facts)))


def snapshot_of(
    state: InventoryState,
    viewer: Viewer,
    *,
    statuses: frozenset[str] = frozenset(),
    words: str = "",
) -> SnapshotDocument:
    """Return the wire document of what the viewer may see."""
    documents: list[EnvironmentDocument] = []
    for tracked in state.environments:
        if viewer.sees(tracked):
            document = environment_document(tracked, can_reap=viewer.may_reap)
            if is_match(document, statuses=statuses, words=words):
                documents.append(document)
    return snapshot_document(
        documents,
        reaps=visible_reaps(viewer, state.now),
        available=state.available,
        warnings=look_warnings(state.looks),
        now=state.now,
    )


def visible_reaps(viewer: Viewer, now: datetime) -> list[ReapDocument]:
    """Return the open reaps and those of the last minute, newest first."""
    recent = Reap.objects.filter(Q(state__in=OPEN_STATES) | Q(finished_at__gte=now - SHOWN_FOR))
    parts = Prefetch("parts", ReapPart.objects.defer("resources"))
    rows = recent.defer("marked").prefetch_related(parts).order_by("-created_at", "-id")
    return [
        reap_document(row)
        for row in rows
        if viewer.workspaces is None or row.workspace_id in viewer.workspaces
    ]


def reap_document(row: Reap) -> ReapDocument:
    counts = removed_counts(row)
    document: ReapDocument = {
        "id": str(row.pk),
        "scope": scope_of(row.target),
        "target": row.target,
        "onlyZombies": row.only_zombies,
        "state": row.state,
        "requestedBy": row.requested_by,
        "marked": row.marked_count,
        "gone": sum(counts),
        "createdAt": clock.rfc3339(row.created_at),
        "warnings": list(row.warnings),
    }
    if row.finished_at:
        document["finishedAt"] = clock.rfc3339(row.finished_at)
        document["result"] = cleanup_result(row.target, counts, warnings=row.warnings)
    return document


def removed_counts(row: Reap) -> tuple[int, int, int]:
    """Return how many containers, networks and volumes are gone so far."""
    if row.state == ReapState.DONE:
        return row.removed_containers, row.removed_networks, row.removed_volumes
    parts = list(row.parts.all())
    return (
        sum(part.removed_containers for part in parts),
        sum(part.removed_networks for part in parts),
        sum(part.removed_volumes for part in parts),
    )
