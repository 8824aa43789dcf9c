"""Rows of the sync. Every primary key is a text made here, so that every store accepts it."""

from __future__ import annotations

from django.db import IntegrityError, models

from kernel.ids import new_uuid7

ID = 36  # a UUID as text
HASH = 64  # hex sha256


class Row(models.Model):
    """A row that several processes may write.

    A write changes the row that was read, found by its version: `filter(…).update(…)`.
    """

    class Meta:
        abstract = True

    def insert(self) -> bool:
        """Insert the row; return False, and write nothing, if a unique key of it is taken."""
        try:
            self.save(force_insert=True)
        except IntegrityError:
            return False
        return True


class Task(Row):
    """A task of the sync. `id` is a UUIDv7; `version` rises with every conditional write.

    `request` holds events, rules and heal fields, `memory` the state between attempts, `facets`
    the search terms of lists, a line `name:value` each.
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


class Counter(Row):
    """A counter of the metrics of all workers; `id` is its name and labels.

    `seconds` is the sum of the observations in a bucket of a histogram.
    """

    id = models.CharField(primary_key=True, max_length=255)
    value = models.FloatField(default=0)
    seconds = models.FloatField(default=0, db_default=0)

    class Meta:
        app_label = "sync"

    def __str__(self) -> str:
        return self.id


class LedgerTarget(Row):
    """The ledger of one target (reference: sync-stack 4.7), written as a whole on (id, version).

    `key` is (rule, repository, environment, destination) hashed; it changes when another rule takes
    the target over, `id` never does. `content` is the ledger, encoded by `domain.ledger_codec`; the
    columns repeat what lists and sweeps filter by. The watcher writes `status`, without a version.
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
        db_table = "sync_ledgerunit"  # the name of its first version
        indexes = [
            models.Index(fields=["datasource"], name="sync_unit_datasource"),
            models.Index(fields=["intent_task_id"], name="sync_unit_intent"),
            models.Index(fields=["repo", "id"], name="sync_unit_repo"),
        ]

    def __str__(self) -> str:
        return f"{self.rule_id} {self.repo} {self.env} at {self.destination}"


class DestinationLock(Row):
    """The lock of one destination: the task that writes there, and its generation."""

    id = models.CharField(primary_key=True, max_length=HASH)
    generation = models.BigIntegerField(default=1)
    holder_task = models.CharField(max_length=ID, blank=True, db_index=True)
    holder_attempt = models.IntegerField(default=0)

    class Meta:
        app_label = "sync"
        db_table = "sync_lease"  # the name of its first version

    def __str__(self) -> str:
        return f"{self.id} at generation {self.generation}"


class RefRecord(Row):
    """The last state of a ref that a rule handled; `id` hashes (rule, repository, ref).

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
        indexes = [models.Index(fields=["repo", "id"], name="sync_ref_repo")]

    def __str__(self) -> str:
        return f"{self.rule_id} {self.repo} {self.ref}"


class JournalChunk(Row):
    """A part of a journal, encrypted. `id` is `<journal>:<number>`."""

    id = models.CharField(primary_key=True, max_length=ID + 8)
    journal = models.CharField(max_length=ID, db_index=True)
    number = models.IntegerField()
    task_id = models.CharField(max_length=ID)
    content = models.BinaryField()

    class Meta:
        app_label = "sync"

    def __str__(self) -> str:
        return self.id


class Drift(Row):
    """One episode of drift. `heal`, `counts` and `changes` are JSON (reference: sync-stack 6.4).

    `slot` is the target while the episode is open, then its own id: a target never has two open.
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


class Leader(Row):
    """The elected leader; `beat` rises while it lives, `version` with every holder."""

    id = models.CharField(primary_key=True, max_length=32)
    holder = models.CharField(max_length=128, blank=True)
    beat = models.BigIntegerField(default=0)
    version = models.BigIntegerField(default=1)

    class Meta:
        app_label = "sync"

    def __str__(self) -> str:
        return f"{self.id}: {self.holder}"


class WatchState(Row):
    """The heal state of a target; `id` is the target's. It may be lost: heals then start again."""

    id = models.CharField(primary_key=True, max_length=ID)
    content = models.JSONField(default=dict)

    class Meta:
        app_label = "sync"

    def __str__(self) -> str:
        return self.id
