"""Rows of environments: what is watched, the newest looks, dead times, and reaps.

Lists of resources are zlib-compressed JSON.
"""

from __future__ import annotations

from django.db import models

from apps.environments.domain.states import ReapState
from kernel.ids import new_uuid


class WatchedInventory(models.Model):
    """One row. A use case that begins or takes a reap raises `version` first.

    Runners look while `watched_until` is in the future, and when their last look is older than
    `look_wanted_at`.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    name = models.CharField(max_length=16, unique=True)
    version = models.PositiveIntegerField(default=0)
    watched_until = models.DateTimeField(null=True)
    look_wanted_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name


class StoredLook(models.Model):
    """The newest look of one supervisor; `gone`: incarnations without a process on its host."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    agent_id = models.CharField(max_length=128, unique=True)
    host_id = models.CharField(max_length=128, blank=True)
    looked_at = models.DateTimeField(db_index=True)
    available = models.BooleanField()
    resources = models.BinaryField()
    omitted = models.PositiveIntegerField(default=0)
    gone = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"{self.agent_id} at {self.looked_at}"


class DeadRun(models.Model):
    """A run with containers at work and a dead orchestrator, as looks of `agent_id` found it."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    run_id = models.CharField(max_length=128, unique=True)
    agent_id = models.CharField(max_length=128, db_index=True)
    dead_since = models.DateTimeField()
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.run_id} since {self.dead_since}"


class Reap(models.Model):
    """The removal of one environment or of all; `run_ids` are the runs that are canceled first.

    `marked` is what is to be removed, until the parts have it. `lease_expires_at` is of who marks.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    target = models.CharField(max_length=200)
    only_zombies = models.BooleanField(default=False)
    requested_by = models.CharField(max_length=700, blank=True)
    workspace_id = models.CharField(max_length=36, blank=True)
    sandbox_ids = models.JSONField(default=list)
    run_ids = models.JSONField(default=list)
    state = models.CharField(max_length=8, default=ReapState.MARKING)
    marked = models.BinaryField()
    marked_count = models.PositiveIntegerField(default=0)
    removed_containers = models.PositiveIntegerField(default=0)
    removed_networks = models.PositiveIntegerField(default=0)
    removed_volumes = models.PositiveIntegerField(default=0)
    warnings = models.JSONField(default=list)
    lease_expires_at = models.DateTimeField()
    created_at = models.DateTimeField()
    ready_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True, db_index=True)

    class Meta:
        indexes = [models.Index(fields=["state", "finished_at"], name="reap_by_state")]

    def __str__(self) -> str:
        return f"{self.target}: {self.state}"


class ReapPart(models.Model):
    """What the supervisors `agents` reach of a reap; one of them sweeps it under a lease."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    reap = models.ForeignKey(Reap, on_delete=models.CASCADE, related_name="parts")
    agents = models.JSONField()
    resources = models.BinaryField()
    state = models.CharField(max_length=8, default=ReapState.READY, db_index=True)
    holder = models.CharField(max_length=200, blank=True)
    lease_expires_at = models.DateTimeField(null=True)
    removed_containers = models.PositiveIntegerField(default=0)
    removed_networks = models.PositiveIntegerField(default=0)
    removed_volumes = models.PositiveIntegerField(default=0)
    warnings = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"part of {self.reap_id}: {self.state}"
