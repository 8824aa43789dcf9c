"""Units: their ledger, where they live, what refs were seen, and what restores them."""

from __future__ import annotations

from django.db import models

from sync_stack.orchestrator.models.task import ID

HASH = 64  # hex sha256


class LedgerUnit(models.Model):
    """The ledger of one unit (reference: sync-stack 4.7), written as a whole on (id, version).

    `key` is (rule, repository, environment, destination) hashed; it changes when another rule takes
    the unit over, `id` never does. `content` is what `rows.ledger_codec` makes of the ledger; the
    columns repeat what lists and sweeps ask for. `status` is the watcher's and has no version.
    """

    id = models.CharField(primary_key=True, max_length=ID)
    version = models.BigIntegerField(default=1)
    key = models.CharField(max_length=HASH, unique=True)
    rule_id = models.CharField(max_length=128, db_index=True)
    tenant = models.CharField(max_length=128)
    platform = models.CharField(max_length=64)
    datasource = models.CharField(max_length=128)
    kind = models.CharField(max_length=32)
    repo = models.CharField(max_length=512)
    env = models.CharField(max_length=128)
    destination = models.TextField()
    destination_id = models.CharField(max_length=HASH, db_index=True)
    address = models.TextField()
    separator = models.CharField(max_length=8, blank=True)
    content = models.BinaryField()
    ref = models.CharField(max_length=512, blank=True)
    commit = models.CharField(max_length=64, blank=True)
    rule_digest = models.CharField(max_length=HASH, blank=True)
    generation = models.BigIntegerField(default=0)
    keys = models.IntegerField(default=0)
    applied_at = models.CharField(max_length=32, blank=True)
    last_task_id = models.CharField(max_length=ID, blank=True)
    intent_task_id = models.CharField(max_length=ID, blank=True)
    journal = models.CharField(max_length=ID, blank=True)
    stale_since = models.CharField(max_length=32, blank=True)
    status = models.CharField(max_length=16, default="unknown")
    status_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "sync"
        indexes = [
            models.Index(fields=["datasource"], name="sync_unit_datasource"),
            models.Index(fields=["intent_task_id"], name="sync_unit_intent"),
        ]

    def __str__(self) -> str:
        return f"{self.rule_id} {self.repo} {self.env} at {self.destination}"


class Lease(models.Model):
    """One destination: who writes there now, and the fencing number of the last who did."""

    id = models.CharField(primary_key=True, max_length=HASH)
    generation = models.BigIntegerField(default=1)
    holder_task = models.CharField(max_length=ID, blank=True, db_index=True)
    holder_attempt = models.IntegerField(default=0)

    class Meta:
        app_label = "sync"

    def __str__(self) -> str:
        return f"{self.id} at generation {self.generation}"


class RefRecord(models.Model):
    """What was last seen of a ref by a rule; `id` hashes (rule, repository, ref).

    (reference: sync-stack 4.4)
    """

    id = models.CharField(primary_key=True, max_length=HASH)
    version = models.BigIntegerField(default=1)
    rule_id = models.CharField(max_length=128, db_index=True)
    platform = models.CharField(max_length=64)
    datasource = models.CharField(max_length=128)
    repo = models.CharField(max_length=512)
    ref = models.CharField(max_length=512)
    seen = models.JSONField(default=dict)
    recent = models.JSONField(default=list)
    pr_time = models.CharField(max_length=64, blank=True)

    class Meta:
        app_label = "sync"

    def __str__(self) -> str:
        return f"{self.rule_id} {self.repo} {self.ref}"


class JournalChunk(models.Model):
    """Encrypted: what a destination held before an intent. `id` is `<journal>:<number>`."""

    id = models.CharField(primary_key=True, max_length=ID + 8)
    journal = models.CharField(max_length=ID, db_index=True)
    number = models.IntegerField()
    task_id = models.CharField(max_length=ID)
    content = models.BinaryField()

    class Meta:
        app_label = "sync"

    def __str__(self) -> str:
        return self.id
