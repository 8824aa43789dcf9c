"""The sessions of CI jobs, and which tokens of jobs were used."""

from __future__ import annotations

from django.db import models

from apps.accounts.domain.roles import Role
from apps.accounts.models.expiring_rows import HASH_LENGTH
from kernel.clock import now
from kernel.ids import new_uuid


class CiSession(models.Model):
    """What a CI job got for its own token, once: `job_token_hash` is unique until `kept_until`.

    `owner_id` is that of the runs, the same for all jobs of a rule and a repository. A session ends
    when the rule that let it in (`rule_digest`) is changed or removed.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    workspace = models.ForeignKey(
        "accounts.Workspace", on_delete=models.CASCADE, related_name="ci_sessions"
    )
    owner_id = models.UUIDField(db_index=True)
    token_hash = models.CharField(max_length=HASH_LENGTH, unique=True)
    job_token_hash = models.CharField(max_length=HASH_LENGTH, unique=True)
    rule_name = models.CharField(max_length=128)
    rule_digest = models.CharField(max_length=HASH_LENGTH)
    job = models.CharField(max_length=300)
    role = models.CharField(max_length=16, choices=[(role, role) for role in Role])
    suites = models.JSONField(default=list)
    created_at = models.DateTimeField(default=now)
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    kept_until = models.DateTimeField(db_index=True)  # its end, and that of the job's token

    class Meta:
        verbose_name = "CI session"

    def __str__(self) -> str:
        return self.job
