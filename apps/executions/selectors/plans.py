"""What never changes of a run, kept in memory: its plan, its nodes, where its rows are."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any, Final
from uuid import UUID

from apps.executions.domain.plan import Plan, plan_of
from apps.executions.models import Snapshot, Step

JobPlace = tuple[UUID, int]
_PLACES_KEPT: Final = 20_000
_places: dict[str, JobPlace] = {}
_places_lock = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """A snapshot as planners and claims need it; places are those of the topology, from 0.

    `suite` holds id, title, repository; `contents` source suite id → {digest, size}.
    """

    plan: Plan
    nodes: tuple[Mapping[str, Any], ...]
    suite: Mapping[str, str]
    profile: Mapping[str, Any]
    contents: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRows:
    """Keys of the step rows of a run, by place."""

    step_pks: tuple[UUID, ...]
    job_ids: tuple[str, ...]


@lru_cache(maxsize=256)
def run_plan(snapshot_id: UUID) -> RunPlan:
    packed = Snapshot.objects.values_list("document", flat=True).get(pk=snapshot_id)
    document = json.loads(zlib.decompress(packed))
    suite = document["suite"]
    return RunPlan(
        plan=plan_of(suite["topology"]),
        nodes=tuple(suite["topology"]),
        suite={key: suite[key] for key in ("id", "title", "repository")},
        profile=document["profile"],
        contents=document["contents"],
    )


@lru_cache(maxsize=512)
def run_rows(execution_pk: UUID) -> RunRows:
    rows = Step.objects.filter(execution_id=execution_pk).order_by("index")
    found = list(rows.values_list("pk", "job_id"))
    _remember({job_id: (execution_pk, at) for at, (_, job_id) in enumerate(found)})
    return RunRows(step_pks=tuple(pk for pk, _ in found), job_ids=tuple(job for _, job in found))


def places_of_jobs(job_ids: Iterable[str]) -> dict[str, JobPlace]:
    """Job → (key of its run, place); jobs that do not exist are left out. At most one query."""
    wanted = set(job_ids)
    with _places_lock:
        known = {job: _places[job] for job in wanted if job in _places}
    if missing := wanted - known.keys():
        rows = Step.objects.filter(job_id__in=missing)
        found = rows.values_list("job_id", "execution_id", "index")
        read = {job: (execution_pk, index - 1) for job, execution_pk, index in found}
        _remember(read)
        known |= read
    return known


def _remember(places: Mapping[str, JobPlace]) -> None:
    with _places_lock:
        _places.update(places)
        for job in list(_places)[:-_PLACES_KEPT]:
            del _places[job]
