"""Paths below `/api/v1/`."""

from __future__ import annotations

from django.urls import path

from apps.platform_settings.rest.views import SettingsPreviewView, SettingsView

app_name = "platform_settings"
urlpatterns = [
    path("platform-settings", SettingsView.as_view(), name="settings"),
    path("platform-settings/preview", SettingsPreviewView.as_view(), name="preview"),
]
