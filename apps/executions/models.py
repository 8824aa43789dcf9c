"""Rows of runs: fields and indexes. The services write them, each in one unit of work."""

from __future__ import annotations

from django.db import models

from apps.executions.domain.events import CauseLink, cause_chain
from apps.executions.domain.states import ExecutionStatus, JobState, StepStatus
from apps.executions.querysets import ExecutionQuerySet
from kernel.ids import new_uuid


class Snapshot(models.Model):
    """The suite and profile of a run, stored once under the digest of their content.

    `document` is zlib-compressed JSON: `suite` (the definition as on the wire, `topology` in it),
    `profile` {fileName, label, env, services, secretRefs, observability}, `contents`
    {source suite id: {digest, size, offset?}}, `secretRefsOfImports` {path: secretRefs} and `mocks`
    {node id: {surface id: adapter}} where there are any. The tar.gz files themselves are a `Blob`
    row, one after the other, which `archive_sha256` names: empty without files, null if an older
    process stored the snapshot.
    `used_at` is when a launch last needed it; see `services.storage`.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    digest = models.CharField(max_length=71, unique=True)
    document = models.BinaryField()
    archive_sha256 = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001 - see above
    created_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["archive_sha256"], name="snapshot_by_archive")]

    def __str__(self) -> str:
        return self.digest


class Execution(models.Model):
    """A run. The first statement of a transaction that plans it raises `version`."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    version = models.PositiveIntegerField(default=0)
    run_id = models.CharField(max_length=16, unique=True)
    workspace_id = models.UUIDField()
    owner_id = models.UUIDField()
    snapshot = models.ForeignKey(Snapshot, on_delete=models.PROTECT)

    suite_id = models.CharField(max_length=128)
    suite_title = models.CharField(max_length=300)
    suite_repository = models.CharField(max_length=500, blank=True)
    profile = models.CharField(max_length=256, blank=True)
    backend_id = models.CharField(max_length=128)
    backend_label = models.CharField(max_length=300)
    backend_kind = models.CharField(max_length=16)
    trigger = models.CharField(max_length=8)
    author = models.CharField(max_length=300, blank=True)
    # the CI job that launched it, by its own token; empty: an account did
    launched_by = models.CharField(max_length=300, blank=True, default="", db_default="")
    commit = models.CharField(max_length=300, blank=True)
    branch = models.CharField(max_length=300, blank=True)
    message = models.TextField(blank=True)
    rerun_of = models.CharField(max_length=16, blank=True)
    # of reruns: the run that the row of attempts begins with, which may be deleted
    first_run_id = models.CharField(max_length=16, blank=True, default="", db_default="")
    attempt = models.PositiveIntegerField(default=1, db_default=1)
    last_attempt = models.PositiveIntegerField(default=1, db_default=1)  # the highest ever given
    # how long the environment stays after the verdict; `keep_alive_until` from the verdict on
    keep_alive_ms = models.PositiveIntegerField(default=0)
    keep_only_failed = models.BooleanField(default=False, db_default=False)
    keep_alive_until = models.DateTimeField(null=True)
    keep_told_at = models.DateTimeField(null=True)  # when its owner was told of the end
    keep_ended_at = models.DateTimeField(null=True)  # from then on it is removed
    keep_ended_by = models.CharField(max_length=700, blank=True, default="", db_default="")
    request_id = models.CharField(max_length=128, blank=True)
    traceparent = models.CharField(max_length=64, blank=True)  # of the run's own span
    # in whose request it was launched; the store knows a default for processes that are older
    parent_span_id = models.CharField(max_length=16, blank=True, default="", db_default="")

    status = models.CharField(max_length=10, default=ExecutionStatus.QUEUED)
    failing = models.BooleanField(default=False)
    reason = models.CharField(max_length=32, blank=True)
    reason_detail = models.TextField(blank=True)
    cancel_reason = models.TextField(blank=True)
    # the store knows defaults of these for processes that are older
    canceled_by = models.CharField(max_length=700, blank=True, default="", db_default="")
    canceled_at = models.DateTimeField(null=True)
    # why it failed or was canceled, for lists; `domain.verdict.run_sentence`
    sentence = models.TextField(blank=True, default="", db_default="")
    # the final status, decided but not stored as `status` before the teardown is over; else empty
    verdict = models.CharField(max_length=10, blank=True)

    started_at = models.DateTimeField()  # acceptance
    booted_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True)  # gone for readers; the rows follow
    # when the sweep ends what is late: queue wait, run time, teardown, cancel
    deadline = models.DateTimeField(null=True)

    # at most one active run of a workspace's group; empty: none (domain.place_queue)
    concurrency_group = models.CharField(max_length=128, blank=True, default="", db_default="")
    cancel_in_progress = models.BooleanField(default=False, db_default=False)
    # from the acceptance on, as forecast while it was queued; forecasts learn from it
    expected_wait_ms = models.BigIntegerField(null=True)

    total_steps = models.PositiveIntegerField(default=0)
    standings = models.TextField(blank=True)  # domain.states.StatusCode of each step
    bound_agent_id = models.CharField(max_length=128, blank=True)
    log_bytes = models.BigIntegerField(default=0)
    log_lines_dropped = models.BigIntegerField(default=0)

    objects = ExecutionQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["workspace_id", "-started_at", "-id"], name="run_by_workspace"),
            models.Index(fields=["-started_at", "-id"], name="run_by_start"),
            models.Index(fields=["status", "started_at"], name="run_by_status"),
            models.Index(fields=["status", "deadline"], name="run_by_deadline"),
            models.Index(fields=["workspace_id", "booted_at"], name="run_by_admission"),
            models.Index(fields=["finished_at"], name="run_by_finish"),
            models.Index(fields=["suite_id", "-started_at"], name="run_by_suite"),
            models.Index(fields=["deleted_at"], name="run_by_deletion"),
            models.Index(fields=["first_run_id", "attempt"], name="run_by_first"),
            models.Index(fields=["keep_alive_until"], name="run_by_keep"),
            models.Index(fields=["backend_id", "finished_at"], name="run_by_backend"),
        ]

    def __str__(self) -> str:
        return self.run_id

    @property
    def has_kept_environment(self) -> bool:
        """Whether its environment stays, which is decided with the verdict and not over yet."""
        return self.keep_alive_until is not None and self.keep_ended_at is None


class Step(models.Model):
    """A step of a run and its job in one row. The snapshot has the rest, which never changes.

    `index` is 1-based in level order (the code counts from 0). `cancel_reason` is set from the
    request to stop on. `not_before`: when the next attempt may be claimed. `deadline`: when the
    sweep ends the attempt if its supervisor has not. `repeats`: {event name: count} for events
    that may come several times in one attempt.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="steps")
    index = models.PositiveIntegerField()
    step_id = models.CharField(max_length=300)
    name = models.CharField(max_length=300)
    kind = models.CharField(max_length=8)
    variant = models.CharField(max_length=32)
    level = models.PositiveIntegerField()

    status = models.CharField(max_length=8, default=StepStatus.PENDING)
    attempt = models.PositiveIntegerField(default=0)
    reason = models.CharField(max_length=32, blank=True)
    detail = models.TextField(blank=True)
    cause = models.JSONField(default=list)  # [{stepId, reason, exitCode?}], nearest first
    exit_code = models.IntegerField(null=True)
    queued_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)  # claimed, this attempt
    unit_started_at = models.DateTimeField(null=True)  # its container started, this attempt
    finished_at = models.DateTimeField(null=True)
    cpu_percent = models.FloatField(null=True)
    memory_bytes = models.BigIntegerField(null=True)
    memory_peak_bytes = models.BigIntegerField(null=True)
    retries_used = models.PositiveIntegerField(default=0)
    requeues = models.PositiveIntegerField(default=0)
    repeats = models.JSONField(default=dict)
    mocks_away_since = models.DateTimeField(null=True)  # those that the step resets do not answer
    # [{path, hint?}] of the last attempt; an older process that launches has no value for it
    missing_artifacts = models.JSONField(
        default=list, db_default=models.Value([], models.JSONField())
    )
    probe = models.JSONField(null=True)  # domain.steps.ProbeRecord of a service that is not ready
    # what keeps the container of this attempt from its start, in the runtime's words
    waits_for = models.CharField(max_length=1000, blank=True, default="", db_default="")

    job_id = models.CharField(max_length=26, unique=True)
    job_state = models.CharField(max_length=9, default=JobState.NONE)
    backend_id = models.CharField(max_length=128)
    agent_id = models.CharField(max_length=128, blank=True)
    incarnation = models.CharField(max_length=64, blank=True)
    lease_expires_at = models.DateTimeField(null=True)
    next_seq = models.PositiveIntegerField(default=0)
    position = models.BigIntegerField(default=0)
    not_before = models.DateTimeField(null=True)
    deadline = models.DateTimeField(null=True)
    cancel_reason = models.CharField(max_length=8, blank=True)
    last_completion = models.CharField(max_length=40, blank=True)  # to know an identical one again

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["execution", "step_id"], name="step_once_in_run"),
        ]
        indexes = [
            models.Index(fields=["job_state", "backend_id", "queued_at"], name="step_claimable"),
            models.Index(fields=["job_state", "lease_expires_at"], name="step_by_lease"),
            models.Index(fields=["job_state", "deadline"], name="step_by_deadline"),
            models.Index(fields=["agent_id", "job_state"], name="step_by_agent"),
        ]

    def __str__(self) -> str:
        return f"{self.step_id} ({self.status}, attempt {self.attempt})"

    @property
    def cause_of_dependents(self) -> list[CauseLink]:
        """Return the cause that a dependent of this step has: the step, then its own causes."""
        return cause_chain(
            self.step_id, reason=self.reason, exit_code=self.exit_code, cause=self.cause
        )


class Blob(models.Model):
    """Bytes by their SHA-256 (64 hex digits): artifacts and the source files of suites.

    `used_at` is when a launch or an upload last needed them; see `services.storage`.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    sha256 = models.CharField(max_length=64, unique=True)
    size = models.PositiveIntegerField()
    data = models.BinaryField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.sha256} ({self.size} bytes)"


class StepRepeat(models.Model):
    """A step that runs once more in the kept environment of its ended run.

    `attempt` continues the attempts of the step, and `job_id` is that of the step: both name its
    unit. `content_sha256` names the `Blob` with the files (tar.gz) that replace those of the step.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="step_repeats")
    repeat_id = models.CharField(max_length=32, unique=True)
    step_id = models.CharField(max_length=300)
    index = models.PositiveIntegerField()  # of the step, from 0
    kind = models.CharField(max_length=8)
    attempt = models.PositiveIntegerField()
    job_id = models.CharField(max_length=26)
    command = models.TextField(blank=True)
    env = models.JSONField(default=dict)
    content_sha256 = models.CharField(max_length=64, blank=True)
    content_size = models.PositiveIntegerField(default=0)
    asked_by_id = models.UUIDField()
    asked_by = models.CharField(max_length=700)

    state = models.CharField(max_length=9)
    reason = models.CharField(max_length=32, blank=True)
    detail = models.TextField(blank=True)
    exit_code = models.IntegerField(null=True)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)  # taken by a runner
    finished_at = models.DateTimeField(null=True)
    is_canceling = models.BooleanField(default=False)

    agent_id = models.CharField(max_length=128)
    holder = models.CharField(max_length=64, blank=True)  # the process of that supervisor
    lease_expires_at = models.DateTimeField(null=True)
    next_seq = models.PositiveIntegerField(default=0)
    position = models.BigIntegerField(default=0)
    log_bytes = models.BigIntegerField(default=0)
    log_lines_dropped = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["execution", "step_id", "attempt"], name="repeat_once_in_step"
            ),
        ]
        indexes = [
            models.Index(fields=["state", "agent_id"], name="repeat_by_agent"),
            models.Index(fields=["job_id", "attempt"], name="repeat_by_job"),
            models.Index(fields=["content_sha256"], name="repeat_by_content"),
        ]

    def __str__(self) -> str:
        return f"{self.repeat_id} of {self.step_id} ({self.state})"


class StoredObject(models.Model):
    """The bytes of one artifact outside of the store (reference: control-plane 11.11).

    `storage` is the URL of a `domain.artifact_location`, `name` that of the object in it. `head` is
    what lists show: the first 64 KiB of a text, else its first bytes. From `removed_at` on, no
    artifact has it, and its bytes are to be removed.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    storage = models.CharField(max_length=1000)
    name = models.CharField(max_length=120, unique=True)
    size = models.PositiveIntegerField()
    head = models.BinaryField()
    created_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["removed_at"], name="object_by_removal")]

    def __str__(self) -> str:
        return self.name


class Artifact(models.Model):
    """A file that a step exported. `test_summary` is `testSummary` as on the wire.

    Those with a `repeat` were made after the verdict and are no artifacts of the run. The bytes are
    those of `stored_object`, or of the `Blob` with its `sha256` if there is none. `expired_at` is
    when they were removed.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="artifacts")
    repeat = models.ForeignKey(
        StepRepeat, on_delete=models.CASCADE, related_name="artifacts", null=True
    )
    artifact_id = models.CharField(max_length=300)
    step_id = models.CharField(max_length=300)
    step_name = models.CharField(max_length=300)
    attempt = models.PositiveIntegerField()
    path = models.TextField()
    name = models.CharField(max_length=300, blank=True)
    on = models.CharField(max_length=8)
    format = models.CharField(max_length=16)
    media_type = models.CharField(max_length=200)
    size = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)
    stored_object = models.ForeignKey(
        StoredObject, on_delete=models.PROTECT, related_name="artifacts", null=True
    )
    test_summary = models.JSONField(null=True)
    created_at = models.DateTimeField()
    expired_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["execution", "artifact_id"], name="artifact_once"),
        ]
        indexes = [
            models.Index(fields=["sha256"], name="artifact_by_content"),
            models.Index(fields=["expired_at", "created_at"], name="artifact_by_age"),
        ]

    def __str__(self) -> str:
        return self.artifact_id


class IdempotencyKey(models.Model):
    """The stored response to a POST with an `Idempotency-Key`; kept 24 h.

    (reference: control-plane 1.2)
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    scope = models.CharField(max_length=64, unique=True)  # sha256 of principal, method, path, key
    body_sha256 = models.CharField(max_length=64)
    execution_run_id = models.CharField(max_length=16)
    answer = models.JSONField()
    created_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.scope


class FairQueue(models.Model):
    """How workspaces share the places of one kind. Who gives places raises `version` first.

    `name` is `runs`, `steps` or `steps:<backend id>`. `accounts` has `fair_share.Account.as_json`
    by backend id. Any of it may be lost: then all workspaces start level.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    version = models.PositiveIntegerField(default=0)
    name = models.CharField(max_length=160, unique=True)
    accounts = models.JSONField(default=dict)

    def __str__(self) -> str:
        return self.name


class WorkLease(models.Model):
    """A lease on work that one process at a time does, such as the sweep."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    version = models.PositiveIntegerField(default=0)
    name = models.CharField(max_length=64, unique=True)
    holder = models.CharField(max_length=128, blank=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name}: {self.holder}"
