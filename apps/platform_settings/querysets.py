"""Named queries of the platform settings."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from django.db.models import Manager, QuerySet

if TYPE_CHECKING:  # the models import this module
    from apps.platform_settings.models import PlatformSettings, SettingsChange


class SettingsManager(Manager["PlatformSettings"]):
    def at_revision_of(self, row: PlatformSettings) -> QuerySet[PlatformSettings]:
        """Return the row itself, unless it was changed since it was read."""
        return self.filter(pk=row.pk, revision=row.revision)


class HistoryManager(Manager["SettingsChange"]):
    def newest_until(self, moment: datetime) -> QuerySet[SettingsChange]:
        """Return the entries up to a time, the newest first."""
        return self.filter(time__lte=moment).order_by("-time", "-id")
