"""The end of artifacts whose runs stay: their bytes are removed, their rows say when."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet

from apps.executions import conf
from apps.executions.domain.states import FINAL_EXECUTION
from apps.executions.models import Artifact
from apps.executions.services.artifact_objects import held_bytes, mark_objects_removed
from apps.executions.services.stored_files import remove_unused_blobs
from apps.streams.api import unit_of_work
from kernel import clock

_BATCH: Final = 200  # artifacts that one transaction expires
_OF_ENDED_RUNS: Final = Q(execution__status__in=[str(status) for status in FINAL_EXECUTION])
_OF_KEPT_ENVIRONMENTS: Final = Q(
    execution__keep_alive_until__isnull=False, execution__keep_ended_at=None
)


def expire_artifacts() -> int:
    """Remove the bytes of artifacts of runs that ended before the retention; return how many.

    Runs whose environment is kept are left alone.
    """
    retention, expired = conf.artifact_retention(), 0
    if retention >= conf.retention():  # the run goes first
        return 0
    while pks := list(_due(retention).values_list("pk", flat=True)[:_BATCH]):
        expired += _expire(pks)
    return expired


def _due(retention: timedelta) -> QuerySet[Artifact, Artifact]:
    before = clock.now() - retention
    # an artifact is older than the end of its run: the index has few candidates
    old = Artifact.objects.filter(expired_at=None, created_at__lt=before)
    ended = old.filter(_OF_ENDED_RUNS, execution__finished_at__lt=before)
    return ended.exclude(_OF_KEPT_ENVIRONMENTS)


@unit_of_work
def _expire(pks: Collection[UUID]) -> int:
    artifacts = Artifact.objects.filter(pk__in=pks)
    # first a write: a move of these rows waits for it, or was before it and is read
    count = artifacts.filter(expired_at=None).update(expired_at=clock.now())
    hashes, objects = held_bytes(artifacts)
    artifacts.update(stored_object=None)
    remove_unused_blobs(hashes)
    mark_objects_removed(objects)
    return count
