"""Supervisors that registered: runners beside the store and standalone workers."""

from __future__ import annotations

from django.db import models

from kernel.ids import new_uuid


class Agent(models.Model):
    """One supervisor process; `incarnation` is new at each of its starts.

    `token_sha256` is empty for runners: they call in process, without a credential.
    `runs`: the run ids it has resources of, as its last heartbeat said. `failing_loops`: the
    background loops of its process that were failing then. `drained_at`: since when it takes no
    new runs, because an administrator drains it, and `drained_by` the name of the administrator.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    agent_id = models.CharField(max_length=128, unique=True)
    name = models.CharField(max_length=300)
    kind = models.CharField(max_length=8)  # runner | worker
    host_url = models.CharField(max_length=500, blank=True)
    capabilities = models.JSONField(default=list)
    backends = models.JSONField(default=list)
    labels = models.JSONField(default=dict)
    version = models.CharField(max_length=64, blank=True)
    incarnation = models.CharField(max_length=64)
    token_sha256 = models.CharField(max_length=64, blank=True, db_index=True)
    registered_at = models.DateTimeField()
    last_heartbeat_at = models.DateTimeField(db_index=True)
    runtime_available = models.BooleanField(default=True)
    runs = models.JSONField(default=list)
    running_jobs = models.PositiveIntegerField(default=0)
    failing_loops = models.JSONField(default=list, db_default=models.Value([], models.JSONField()))
    host_id = models.CharField(max_length=128, blank=True)
    pid = models.BigIntegerField(null=True)
    process_started_at = models.DateTimeField(null=True)
    removed_at = models.DateTimeField(null=True)
    drained_at = models.DateTimeField(null=True)
    drained_by = models.CharField(max_length=150, blank=True, db_default="")

    def __str__(self) -> str:
        return self.agent_id
