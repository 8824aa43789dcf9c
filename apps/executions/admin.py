"""Runs and their steps in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html

from apps.accounts.api import signed_in
from apps.executions.models import Execution, Step
from apps.executions.services.run_progression import cancel
from apps.operations.admin import RowAdmin, confirmed


@admin.register(Execution)
class ExecutionAdmin(RowAdmin):
    list_display = ("run_id", "suite_id", "status", "author", "started_at", "finished_at", "page")
    list_filter = ("status", "backend_kind", "trigger")
    search_fields = ("run_id", "suite_id", "author", "branch")
    ordering = ("-started_at",)
    actions = ("cancel",)

    @admin.display(description="page")
    def page(self, run: Execution) -> str:
        return format_html('<a href="/executions/{}">open</a>', run.run_id)

    @admin.action(description="Cancel", permissions=["view"])
    def cancel(self, request: HttpRequest, rows: QuerySet[Execution]) -> HttpResponse | None:
        def do(run: Any) -> str:
            cancel(signed_in(request), run.run_id, "canceled by an administrator")
            return "cancel requested"

        question = "Cancel these runs?"
        return confirmed(self, request, rows, question=question, action="cancel", do=do)


@admin.register(Step)
class StepAdmin(RowAdmin):
    list_display = ("step_id", "execution", "kind", "status", "attempt", "reason", "agent_id")
    list_filter = ("status", "kind")
    list_select_related = ("execution",)
    search_fields = ("step_id", "execution__run_id", "agent_id")
