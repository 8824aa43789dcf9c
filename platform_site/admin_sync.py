"""Rows of the sync in the admin of the control plane, where both stand on one store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from apps.operations.admin import RowAdmin, confirm_action, list_link, row_link, state_mark
from kernel.errors import InvalidInput
from sync_stack.core.tasks import TaskKind
from sync_stack.orchestrator.models import Drift, LedgerTarget, Task
from sync_stack.orchestrator.services.operator_requests import NothingToSync, sync_again
from sync_stack.orchestrator.services.task_creation import TooManyTasks


@admin.register(Task)
class TaskAdmin(RowAdmin):
    list_display = ("id", "kind", "status", "datasource", "tenant", "message", "created_at")
    list_filter = ("state", "kind", "platform")
    search_fields = ("id", "datasource", "tenant", "delivery_id", "correlation_id", "facets")
    ordering = ("-id",)
    hidden_fields = ("memory", "idempotency_key")

    @admin.display(description="state", ordering="state")
    def status(self, task: Task) -> str:
        return state_mark(task.state)

    def related_rows(self, row: Task) -> Iterable[str]:
        yield list_link("sync.ledgertarget", "targets applied by it", last_task_id=row.id)
        yield row_link("sync.task", row.retry_of, "earlier try")
        yield row_link("sync.task", row.superseded_by, "superseded by")
        yield row_link("sync.task", row.approved_by, "approved prune of")
        if row.kind == TaskKind.HEAL:
            yield row_link("sync.drift", row.delivery_id, "drift")


@admin.register(LedgerTarget)
class LedgerTargetAdmin(RowAdmin):
    list_display = (
        *("rule_id", "repo", "env", "datasource", "kind", "state", "keys", "applied_at"),
        "related_links",
    )
    list_filter = ("status", "kind")
    search_fields = ("rule_id", "repo", "env", "datasource")
    hidden_fields = ("content",)  # may hold values
    actions = ("sync_again",)

    @admin.display(description="status", ordering="status")
    def state(self, target: LedgerTarget) -> str:
        return state_mark(target.status)

    def related_rows(self, row: LedgerTarget) -> Iterable[str]:
        yield list_link("sync.task", "tasks", q=f"rule:{row.rule_id} repo:{row.repo}")
        yield row_link("sync.task", row.last_task_id, "last task")
        yield row_link("sync.task", row.intent_task_id, "task that writes it")
        yield list_link("sync.drift", "drift", unit_id=row.id)

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
        return confirm_action(self, request, rows, question=question, action="sync_again", do=do)


@admin.register(Drift)
class DriftAdmin(RowAdmin):
    list_display = (
        *("id", "rule_id", "repo", "env", "status", "first_seen_at", "resolved_at"),
        "related_links",
    )
    list_filter = ("state", "flapping")
    search_fields = ("rule_id", "repo", "env", "datasource")
    ordering = ("-last_seen_at",)
    hidden_fields = ("changes",)  # may hold values

    @admin.display(description="state", ordering="state")
    def status(self, drift: Drift) -> str:
        return state_mark(drift.state)

    def related_rows(self, row: Drift) -> Iterable[str]:
        yield row_link("sync.ledgertarget", row.unit_id, "target")
        yield row_link("sync.task", row.heal.get("last_task_id"), "last heal")
