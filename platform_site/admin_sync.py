"""Rows of the sync in the admin of the control plane, where both stand on one store."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from apps.operations.admin import RowAdmin, confirmed
from kernel.errors import InvalidInput
from sync_stack.orchestrator.models import Drift, LedgerTarget, Task
from sync_stack.orchestrator.services.operator_requests import NothingToSync, sync_again
from sync_stack.orchestrator.services.task_creation import TooManyTasks


@admin.register(Task)
class TaskAdmin(RowAdmin):
    list_display = ("id", "kind", "state", "datasource", "tenant", "message", "created_at")
    list_filter = ("state", "kind", "platform")
    search_fields = ("id", "datasource", "tenant", "delivery_id", "correlation_id")
    ordering = ("-id",)
    hidden_fields = ("memory", "idempotency_key")


@admin.register(LedgerTarget)
class LedgerTargetAdmin(RowAdmin):
    list_display = ("rule_id", "repo", "env", "datasource", "kind", "status", "keys", "applied_at")
    list_filter = ("status", "kind")
    search_fields = ("rule_id", "repo", "env", "datasource")
    hidden_fields = ("content",)  # may hold values
    actions = ("sync_again",)

    @admin.action(description="Sync again", permissions=["view"])
    def sync_again(self, request: HttpRequest, rows: QuerySet[LedgerTarget]) -> HttpResponse | None:
        def do(target: Any) -> str:
            try:
                return f"task {sync_again(target).id} syncs it again"
            except NothingToSync as error:
                raise InvalidInput(str(error)) from error
            except TooManyTasks as error:
                raise InvalidInput("too many tasks are already waiting") from error

        question = (
            "Sync these targets again? Each task reads the head of the target's ref and syncs all "
            "targets of its rule there."
        )
        return confirmed(self, request, rows, question=question, action="sync_again", do=do)


@admin.register(Drift)
class DriftAdmin(RowAdmin):
    list_display = ("id", "rule_id", "repo", "env", "state", "first_seen_at", "resolved_at")
    list_filter = ("state", "flapping")
    search_fields = ("rule_id", "repo", "env", "datasource")
    ordering = ("-last_seen_at",)
    hidden_fields = ("changes",)  # may hold values
