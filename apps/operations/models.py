"""Rows of the platform itself: identity, servers, audit, cache generations, the probe's mark."""

from __future__ import annotations

from django.db import models

from kernel import clock, ids


class Installation(models.Model):
    """One row: who this platform is to the containers it labels."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    slot = models.CharField(max_length=16, unique=True, default="installation")
    created_at = models.DateTimeField(default=clock.now)

    def __str__(self) -> str:
        return str(self.id)


class ReadinessMark(models.Model):
    """Written, read and removed again by the probe of the store."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    written_at = models.DateTimeField(default=clock.now)

    def __str__(self) -> str:
        return str(self.id)


class ServerProcess(models.Model):
    """A control-plane process without Redis, and when it was last alive."""

    id = models.UUIDField(primary_key=True, editable=False)
    seen_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return str(self.id)


class AuditRecord(models.Model):
    """One answered request (reference: control-plane 2), kept 90 days."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    time = models.DateTimeField(db_index=True)
    request_id = models.CharField(max_length=128)
    method = models.CharField(max_length=32)
    route = models.CharField(max_length=255)
    path = models.CharField(max_length=2048)
    status = models.PositiveSmallIntegerField()
    duration_ms = models.PositiveBigIntegerField()
    remote_addr = models.CharField(max_length=64)
    user_id = models.CharField(max_length=64, blank=True)
    workspace_id = models.CharField(max_length=64, blank=True)
    agent_id = models.CharField(max_length=128, blank=True)
    # which CI job it was, or why one was refused; the store knows a default for older processes
    note = models.TextField(blank=True, default="", db_default="")

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.status}"


class CacheGeneration(models.Model):
    """How often what the cached reads of a topic are computed from has changed."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    topic = models.CharField(max_length=64, unique=True)
    number = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.topic} {self.number}"
