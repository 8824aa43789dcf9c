"""The Django app of the sync stack's orchestrator."""

from __future__ import annotations

from django.apps import AppConfig


class SyncConfig(AppConfig):
    name = "sync_stack.orchestrator"
    label = "sync"
    default_auto_field = "django.db.models.BigAutoField"
