"""The settings document as OpenAPI describes it, for views whose answers contain it."""

from __future__ import annotations

from apps.platform_settings.rest.schemas import SettingsDocument
