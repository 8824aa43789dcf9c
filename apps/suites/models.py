"""Rows of suites: registered ones, and contents that a lock pinned."""

from __future__ import annotations

from django.db import models

from kernel.ids import new_uuid


class RegisteredSuite(models.Model):
    """A suite of POST /suites.

    `files` is the archive of the package, `digest` the digest of its content.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    suite_id = models.CharField(max_length=128, unique=True)
    digest = models.CharField(max_length=71)
    files = models.BinaryField()
    registered_by = models.UUIDField()
    registered_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.suite_id


class LockedContent(models.Model):
    """The archive of a suite's files as a lock pinned them; see `locked_contents`."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    digest = models.CharField(max_length=71, unique=True)
    suite_id = models.CharField(max_length=128, db_index=True)
    files = models.BinaryField()
    locked_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.suite_id} {self.digest}"
