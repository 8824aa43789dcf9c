"""Rows of the sync in the admin of the control plane, where both stand on one store."""

from __future__ import annotations

from django.contrib import admin

from sync_stack.orchestrator.models import Drift, LedgerTarget, Task


class SyncRowAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's has no []
    """Who may look decides `User.has_perm` of the control plane; nobody changes rows here."""

    show_full_result_count = False


@admin.register(Task)
class TaskAdmin(SyncRowAdmin):
    list_display = ("id", "kind", "state", "datasource", "tenant", "message", "created_at")
    list_filter = ("state", "kind", "platform")
    search_fields = ("id", "datasource", "tenant", "delivery_id", "correlation_id")
    ordering = ("-id",)
    exclude = ("memory", "idempotency_key")


@admin.register(LedgerTarget)
class LedgerTargetAdmin(SyncRowAdmin):
    list_display = ("rule_id", "repo", "env", "datasource", "kind", "status", "keys", "applied_at")
    list_filter = ("status", "kind")
    search_fields = ("rule_id", "repo", "env", "datasource")
    exclude = ("content",)  # may hold values


@admin.register(Drift)
class DriftAdmin(SyncRowAdmin):
    list_display = ("id", "rule_id", "repo", "env", "state", "first_seen_at", "resolved_at")
    list_filter = ("state", "flapping")
    search_fields = ("rule_id", "repo", "env", "datasource")
    ordering = ("-last_seen_at",)
    exclude = ("changes",)  # may hold values
