"""Rows of the index of repositories, and pulled packages by the digest of their manifest."""

from __future__ import annotations

from typing import Any

from django.db import models

from kernel import clock
from kernel.ids import new_uuid


class RegistryState(models.Model):
    """The last synchronization of a registry, and the lease of the one that runs.

    `place` is the URL and scope that it was made with: a registry whose settings changed is due.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    registry_id = models.CharField(max_length=255, unique=True)  # in lower case
    place = models.CharField(max_length=64, blank=True)
    holder = models.CharField(max_length=64, blank=True)
    leased_until = models.DateTimeField()
    due_at = models.DateTimeField(db_index=True)
    synced_at = models.DateTimeField(null=True)  # the last one that succeeded
    error_code = models.CharField(max_length=64, blank=True)
    error_detail = models.CharField(max_length=500, blank=True)

    def __str__(self) -> str:
        return self.registry_id


class IndexedRepository(models.Model):
    """A repository that the last synchronization of its registry found."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    registry_id = models.CharField(max_length=255)  # in lower case
    host = models.CharField(max_length=255)
    path = models.CharField(max_length=255)
    repository = models.CharField(max_length=512, db_index=True)  # host/path
    tags: models.JSONField[Any, Any] = models.JSONField(default=list)  # as the registry lists them
    version = models.CharField(max_length=128, blank=True)
    digest = models.CharField(max_length=71, blank=True)
    artifact_type = models.CharField(max_length=255, blank=True)
    media_types: models.JSONField[Any, Any] = models.JSONField(default=list)
    pulled = models.BooleanField(default=False)
    error_code = models.CharField(max_length=64, blank=True)
    error_detail = models.CharField(max_length=500, blank=True)
    seen_at = models.DateTimeField(default=clock.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["registry_id", "path"], name="oci_repository_unique")
        ]

    def __str__(self) -> str:
        return self.repository


class SuiteIdAssignment(models.Model):
    """The suite id of a repository, which stays when the repository leaves the index."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    repository = models.CharField(max_length=512, unique=True)
    suite_id = models.CharField(max_length=512, db_index=True)
    created_at = models.DateTimeField(default=clock.now)

    def __str__(self) -> str:
        return f"{self.repository}: {self.suite_id}"


class StoredPackage(models.Model):
    """A pulled package by the digest of its manifest; `LayerPart` rows hold its layer."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    digest = models.CharField(max_length=71, unique=True)
    manifest = models.BinaryField()
    content_digest = models.CharField(max_length=71)
    size = models.PositiveBigIntegerField()
    created_at = models.DateTimeField(default=clock.now)

    def __str__(self) -> str:
        return self.digest


class LayerPart(models.Model):
    """A part of a layer: a document of MongoDB has at most 16 MB."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    digest = models.CharField(max_length=71)  # of the manifest
    number = models.PositiveSmallIntegerField()
    content = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["digest", "number"], name="oci_layer_part_unique")
        ]

    def __str__(self) -> str:
        return f"{self.digest} {self.number}"
