"""Stored profiles, and which contents of their file came from the store."""

from __future__ import annotations

from django.db import models

from kernel.clock import now
from kernel.ids import new_uuid


class SuiteProfiles(models.Model):
    """One row per suite with stored profiles. `revision` is new after each change of any of them.

    `default_id` is the profile that somebody chose as the default; empty: none is chosen.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    suite_id = models.CharField(max_length=128, unique=True)
    revision = models.CharField(max_length=36)
    default_id = models.CharField(max_length=128, blank=True)

    def __str__(self) -> str:
        return self.suite_id


class ProfileRecord(models.Model):
    """A stored profile, or with `seed_sha256` the mark of a deleted profile file.

    `updated_by` is the author's name, `workspace_id` where the author worked.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    suite_id = models.CharField(max_length=128)
    profile_id = models.CharField(max_length=128)
    name = models.CharField(max_length=200, blank=True)
    file_name = models.CharField(max_length=120, blank=True)
    description = models.TextField(blank=True)
    scope = models.CharField(max_length=100, blank=True)
    yaml = models.TextField(blank=True)
    secret_refs = models.JSONField(default=list)
    extends_id = models.CharField(max_length=128, blank=True)
    launchable = models.BooleanField(default=True)
    seed_sha256 = models.CharField(max_length=64, blank=True)
    updated_at = models.DateTimeField(default=now)
    updated_by = models.CharField(max_length=200, blank=True)
    workspace_id = models.CharField(max_length=36, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["suite_id", "profile_id"], name="one_profile_per_id")
        ]

    def __str__(self) -> str:
        return f"{self.suite_id}/{self.profile_id}"


class ProfilesFileContent(models.Model):
    """A content of svc-profiles.yaml that was imported or written: it is not imported again."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    sha256 = models.CharField(max_length=64, unique=True)
    seen_at = models.DateTimeField(default=now, db_index=True)

    def __str__(self) -> str:
        return self.sha256
