"""Rows of the platform settings: the document, what syncs found out, and its history."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Final

from django.db import models

from apps.platform_settings.domain.wire import Wire, complete_wire
from kernel import clock
from kernel.ids import new_uuid

SLOT: Final = "settings"


class SettingsManager(models.Manager["PlatformSettings"]):
    def at_revision_of(self, row: PlatformSettings) -> models.QuerySet[PlatformSettings]:
        """Return the row itself, unless it was changed since it was read."""
        return self.filter(pk=row.pk, revision=row.revision)


class HistoryManager(models.Manager["SettingsChange"]):
    def newest_until(self, moment: datetime) -> models.QuerySet[SettingsChange]:
        """Return the entries up to a time, the newest first."""
        return self.filter(time__lte=moment).order_by("-time", "-id")


class PlatformSettings(models.Model):
    """One row. `document` is the wire form with encrypted secrets.

    `revision` is new at each change. `file_digests` are those (sha256) of the last imported file
    and of every file that was written since: a file with one of them is not imported.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    slot = models.CharField(max_length=16, unique=True, default=SLOT)
    revision = models.UUIDField(default=new_uuid)
    document = models.JSONField(default=dict)
    updated_at = models.DateTimeField(default=clock.now)
    file_digests = models.JSONField(default=list)

    objects: ClassVar[SettingsManager] = SettingsManager()

    def __str__(self) -> str:
        return str(self.revision)

    @property
    def wire(self) -> Wire:
        """The document, with the keys that an older version did not store."""
        return complete_wire(self.document)


class RegistryState(models.Model):
    """How the last sync of a registry ended."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    registry_id = models.CharField(max_length=128, unique=True)
    succeeded = models.BooleanField(default=False)
    last_synced_at = models.DateTimeField(null=True)  # the last success
    last_error = models.TextField(blank=True)

    def __str__(self) -> str:
        return self.registry_id


class SettingsChange(models.Model):
    """One change of the settings, with masked values; the newest 200 are kept."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    time = models.DateTimeField(db_index=True)
    revision = models.UUIDField()
    origin = models.CharField(max_length=16)  # api, page, command, file, default
    user_id = models.CharField(max_length=64, blank=True)
    user_name = models.CharField(max_length=320, blank=True)
    changes = models.JSONField(default=list)  # {key, old, new}

    objects: ClassVar[HistoryManager] = HistoryManager()

    def __str__(self) -> str:
        return f"{self.origin} {self.time:%Y-%m-%d %H:%M}"
