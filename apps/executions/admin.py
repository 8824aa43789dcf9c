"""Runs and their steps in the admin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html

from apps.accounts.api import require_principal
from apps.executions.models import Execution, Step
from apps.executions.services.cancellations import cancel
from apps.operations.admin import RowAdmin, confirm_action, list_link, row_link, state_mark


@admin.register(Execution)
class ExecutionAdmin(RowAdmin):
    list_display = (
        *("run_id", "suite_id", "state", "author", "started_at", "finished_at"),
        *("page", "related_links"),
    )
    list_filter = ("status", "backend_kind", "trigger")
    search_fields = ("run_id", "suite_id", "author", "branch")
    ordering = ("-started_at",)
    actions = ("cancel",)

    @admin.display(description="status", ordering="status")
    def state(self, run: Execution) -> str:
        return state_mark(run.status)

    def related_rows(self, row: Execution) -> Iterable[str]:
        yield list_link("executions.step", "steps", execution__id__exact=row.pk)
        yield list_link("streams.topic", "streams", q=row.run_id)
        yield row_link("accounts.workspace", row.workspace_id, "workspace")
        yield row_link("accounts.user", row.owner_id, "user")
        if row.bound_agent_id:
            yield list_link("agents.agent", "agent", agent_id=row.bound_agent_id)

    @admin.display(description="page")
    def page(self, run: Execution) -> str:
        return format_html('<a href="/executions/{}">open</a>', run.run_id)

    @admin.action(description="Cancel", permissions=["view"])
    def cancel(self, request: HttpRequest, rows: QuerySet[Execution]) -> HttpResponse | None:
        def do(run: Any) -> str:
            cancel(require_principal(request), run.run_id)
            return "cancel requested"

        question = "Cancel these runs?"
        return confirm_action(self, request, rows, question=question, action="cancel", do=do)


@admin.register(Step)
class StepAdmin(RowAdmin):
    list_display = ("step_id", "execution", "kind", "state", "attempt", "reason", "related_links")
    list_filter = ("status", "kind")
    list_select_related = ("execution",)
    search_fields = ("step_id", "execution__run_id", "agent_id")

    @admin.display(description="status", ordering="status")
    def state(self, step: Step) -> str:
        return state_mark(step.status)

    def related_rows(self, row: Step) -> Iterable[str]:
        yield row_link("executions.execution", row.execution_id, "run")
        if row.agent_id:
            yield list_link("agents.agent", f"agent {row.agent_id}", agent_id=row.agent_id)
