"""Retention: deleted and old runs are removed with their steps, artifacts and streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from apps.accounts.api import Principal
from apps.executions import conf
from apps.executions.domain.events import OVERVIEW_NUDGE, events_topic, logs_topic
from apps.executions.domain.runs import ExecutionActive
from apps.executions.domain.states import FINAL_EXECUTION
from apps.executions.models import Artifact, Blob, Execution, Snapshot, Step
from apps.executions.selectors.detail import detail
from apps.executions.selectors.runs import get_execution
from apps.streams.api import LostRace, delete_topics, nudge, unit_of_work
from kernel import clock

_BATCH: Final = 20  # runs that one transaction removes
_FINAL: Final = [str(status) for status in FINAL_EXECUTION]


@unit_of_work
def delete(
    principal: Principal, run_id: str, *, require: Callable[[dict[str, Any]], None] | None = None
) -> None:
    """Hide a finished run from all readers; `remove_old_runs` removes its rows later.

    `require` gets the Detail and may raise to keep the run. Raise ExecutionNotFound or
    ExecutionActive.
    """
    execution = get_execution(principal, run_id)
    finished = Execution.objects.filter(pk=execution.pk, status__in=_FINAL, deleted_at=None)
    if not finished.exists():
        raise ExecutionActive("the execution is not over; cancel it first")
    if require:
        require(detail(principal, run_id))
    if not finished.filter(version=execution.version).update(deleted_at=clock.now()):
        raise LostRace
    nudge(OVERVIEW_NUDGE)


def releasable_runs(run_ids: Iterable[str]) -> list[str]:
    """Return the runs whose containers, networks and volumes can go: over, deleted or unknown."""
    asked = list(run_ids)
    needed = Execution.objects.filter(run_id__in=asked).exclude(status__in=_FINAL)
    kept = set(needed.values_list("run_id", flat=True))
    return [run_id for run_id in asked if run_id not in kept]


def remove_old_runs() -> int:
    """Remove deleted runs and runs older than the retention; return how many."""
    if _expired().exists():
        _mark_expired()
    removed = 0
    deleted = Execution.objects.filter(deleted_at__isnull=False).order_by("deleted_at")
    while batch := list(deleted.values_list("pk", "run_id", "snapshot_id")[:_BATCH]):
        _remove(batch)
        removed += len(batch)
    return removed


@unit_of_work
def _mark_expired() -> None:
    _expired().update(deleted_at=clock.now())
    nudge(OVERVIEW_NUDGE)


def _expired() -> QuerySet[Execution, Execution]:
    before = clock.now() - conf.retention()
    return Execution.objects.filter(status__in=_FINAL, finished_at__lt=before, deleted_at=None)


@unit_of_work
def _remove(runs: Sequence[tuple[UUID, str, UUID]]) -> None:
    pks = [pk for pk, _, _ in runs]
    delete_topics([topic(run_id) for _, run_id, _ in runs for topic in (events_topic, logs_topic)])
    hashes = set(Artifact.objects.filter(execution_id__in=pks).values_list("sha256", flat=True))
    Artifact.objects.filter(execution_id__in=pks).delete()
    Step.objects.filter(execution_id__in=pks).delete()
    Execution.objects.filter(pk__in=pks).delete()
    still = Artifact.objects.filter(sha256__in=hashes).values_list("sha256", flat=True)
    Blob.objects.filter(sha256__in=hashes - set(still)).delete()
    snapshots = {snapshot_pk for _, _, snapshot_pk in runs}
    used = Execution.objects.filter(snapshot_id__in=snapshots).values_list("snapshot_id", flat=True)
    Snapshot.objects.filter(pk__in=snapshots - set(used)).delete()
