"""Reads of the rows: the stored document, the state of registries, the history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from apps.platform_settings.models import SLOT, PlatformSettings, RegistryState, SettingsChange
from kernel import clock


def stored_settings() -> PlatformSettings | None:
    return PlatformSettings.objects.filter(slot=SLOT).first()


def stored_revision() -> UUID | None:
    """Return what is new at each change of the settings; None before the first."""
    return PlatformSettings.objects.filter(slot=SLOT).values_list("revision", flat=True).first()


def registry_states(registry_ids: Sequence[str]) -> dict[str, RegistryState]:
    """Return the states of those registries that were synced, by id."""
    rows = RegistryState.objects.filter(registry_id__in=registry_ids) if registry_ids else ()
    return {row.registry_id: row for row in rows}


def last_changes(limit: int) -> list[SettingsChange]:
    """Return the last changes, the newest first."""
    return list(SettingsChange.objects.newest_until(clock.now() + timedelta(days=1))[:limit])
