"""Snapshots: what a run was launched with. A snapshot never changes, so it is cached."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from apps.executions.domain.bounded_cache import BoundedCache
from apps.executions.domain.plan import RunPlan, plan_of
from apps.executions.domain.steps import StepEdges, step_edges
from apps.executions.models import Snapshot

_edges: Final[BoundedCache[UUID, Mapping[str, StepEdges]]] = BoundedCache(256)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDefinition:
    """A snapshot as planning and claims need it; `nodes` are wire nodes in topology order.

    `suite` has id, title, repository; `contents` source suite id → {digest, size}.
    """

    plan: RunPlan
    nodes: tuple[Mapping[str, Any], ...]
    suite: Mapping[str, str]
    profile: Mapping[str, Any]
    contents: Mapping[str, Mapping[str, Any]]


@lru_cache(maxsize=256)
def run_definition(snapshot_id: UUID) -> RunDefinition:
    document = _document(snapshot_id)
    suite = document["suite"]
    return RunDefinition(
        plan=plan_of(suite["topology"]),
        nodes=tuple(suite["topology"]),
        suite={key: suite[key] for key in ("id", "title", "repository")},
        profile=document["profile"],
        contents=document["contents"],
    )


@lru_cache(maxsize=16)
def suite_of(snapshot_id: UUID) -> Mapping[str, Any]:
    """Return the suite definition at the time of the launch, as on the wire.

    (reference: control-plane 9)
    """
    suite: Mapping[str, Any] = _document(snapshot_id)["suite"]
    return suite


def edges_of(snapshot_ids: Iterable[UUID]) -> dict[UUID, Mapping[str, StepEdges]]:
    """Return snapshot id → step id → edges; one query for all snapshots that are not cached."""
    return _edges.get_many(snapshot_ids, _read_edges)


def _read_edges(snapshot_ids: set[UUID]) -> dict[UUID, Mapping[str, StepEdges]]:
    rows = Snapshot.objects.filter(pk__in=list(snapshot_ids)).values_list("pk", "document")
    return {pk: step_edges(_unpacked(packed)["suite"]["topology"]) for pk, packed in rows}


def _document(snapshot_id: UUID) -> dict[str, Any]:
    return _unpacked(Snapshot.objects.values_list("document", flat=True).get(pk=snapshot_id))


def _unpacked(packed: bytes | memoryview) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(zlib.decompress(packed))
    return document
