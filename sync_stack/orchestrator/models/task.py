"""Tasks: what is to be synchronized, and how it went (reference: sync-stack 4.10)."""

from __future__ import annotations

from django.db import models

ID = 36  # a UUID as text


class Task(models.Model):
    """`id` is a UUIDv7: later tasks sort later. `version` rises with every conditional write.

    `request` says what to do (events, rules, heal fields), `memory` what an attempt leaves for the
    next one, `facets` is what lists are filtered by: a line `name:value` each.
    """

    id = models.CharField(primary_key=True, max_length=ID)
    version = models.BigIntegerField(default=0)
    kind = models.CharField(max_length=16)
    state = models.CharField(max_length=16)
    message = models.CharField(max_length=64, blank=True)
    platform = models.CharField(max_length=64, blank=True)
    datasource = models.CharField(max_length=128, blank=True)
    tenant = models.CharField(max_length=128, blank=True)
    idempotency_key = models.CharField(max_length=128)
    try_number = models.IntegerField(default=1)
    delivery_id = models.CharField(max_length=256, blank=True)
    correlation_id = models.CharField(max_length=128, blank=True)
    bundle_digest = models.CharField(max_length=64, blank=True)
    retry_of = models.CharField(max_length=ID, blank=True)
    superseded_by = models.CharField(max_length=ID, blank=True)
    approved_by = models.CharField(max_length=ID, blank=True)
    traceparent = models.CharField(max_length=55, blank=True, default="", db_default="")
    coalesce_key = models.CharField(max_length=64, blank=True)
    waiting_for = models.CharField(max_length=64, blank=True)
    facets = models.TextField(blank=True)
    attempt = models.IntegerField(default=0)
    max_attempts = models.IntegerField(default=6)
    beat = models.BigIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True)
    published_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    duration_ms = models.BigIntegerField(default=0)
    request = models.JSONField(default=dict)
    memory = models.JSONField(default=dict)
    progress = models.JSONField(default=dict)
    result = models.JSONField(default=dict)
    error = models.JSONField(default=dict)

    class Meta:
        app_label = "sync"
        constraints = [
            models.UniqueConstraint(
                fields=["idempotency_key", "try_number"], name="sync_task_key_once"
            )
        ]
        indexes = [
            models.Index(fields=["state", "id"], name="sync_task_state"),
            models.Index(fields=["coalesce_key", "state"], name="sync_task_coalesce"),
            models.Index(fields=["waiting_for", "state"], name="sync_task_waiting"),
            models.Index(fields=["finished_at"], name="sync_task_finished"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} task {self.id}"


class Counter(models.Model):
    """A number that only rises, for the metrics of all workers; `id` is its name and labels.

    `seconds`: of a bucket of a histogram, the sum of what it holds.
    """

    id = models.CharField(primary_key=True, max_length=255)
    value = models.FloatField(default=0)
    seconds = models.FloatField(default=0, db_default=0)

    class Meta:
        app_label = "sync"

    def __str__(self) -> str:
        return self.id
