"""Rows of suites that were registered as text."""

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
