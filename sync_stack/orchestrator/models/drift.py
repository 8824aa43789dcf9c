"""Rows of the watcher: episodes of drift, and who polls (reference: sync-stack 6.4, 6.6)."""

from __future__ import annotations

from django.db import models

from kernel.ids import new_uuid7
from sync_stack.orchestrator.models.task import ID


class Drift(models.Model):
    """One episode. `heal`, `counts` and `changes` are JSON (reference: sync-stack 6.4).

    `slot` is the unit while the episode is open and its own id afterwards: a unit never has two.
    """

    id = models.CharField(primary_key=True, max_length=ID)
    version = models.BigIntegerField(default=1)
    slot = models.CharField(max_length=ID, unique=True, default=new_uuid7)
    unit_id = models.CharField(max_length=ID, db_index=True)
    rule_id = models.CharField(max_length=128)
    platform = models.CharField(max_length=64)
    datasource = models.CharField(max_length=128)
    kind = models.CharField(max_length=32)
    tenant = models.CharField(max_length=128)
    env = models.CharField(max_length=128)
    repo = models.CharField(max_length=512)
    ref = models.CharField(max_length=512)
    commit = models.CharField(max_length=64)
    generation = models.BigIntegerField(default=0)
    destination = models.TextField()
    state = models.CharField(max_length=16, db_index=True)
    flapping = models.BooleanField(default=False)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField(db_index=True)
    polls = models.IntegerField(default=1)
    counts = models.JSONField(default=dict)
    changes = models.JSONField(default=list)
    heal = models.JSONField(default=dict)
    resolved_at = models.DateTimeField(null=True)
    resolved_by = models.CharField(max_length=16, blank=True)

    class Meta:
        app_label = "sync"

    def __str__(self) -> str:
        return f"{self.state} drift of {self.rule_id} {self.repo} {self.env}"


class Leader(models.Model):
    """Who does what only one may do; `beat` rises while it lives, `version` with every holder."""

    id = models.CharField(primary_key=True, max_length=32)
    holder = models.CharField(max_length=128, blank=True)
    beat = models.BigIntegerField(default=0)
    version = models.BigIntegerField(default=1)

    class Meta:
        app_label = "sync"

    def __str__(self) -> str:
        return f"{self.id}: {self.holder}"


class WatchState(models.Model):
    """What the watcher remembers of a unit; `id` is the unit's. A copy: losing it costs time."""

    id = models.CharField(primary_key=True, max_length=ID)
    content = models.JSONField(default=dict)

    class Meta:
        app_label = "sync"

    def __str__(self) -> str:
        return self.id
