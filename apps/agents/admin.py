"""Supervisors in the admin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from apps.agents.models import Agent
from apps.agents.selectors import as_agent
from apps.agents.services import drain, remove_by_hand, resume
from apps.operations.admin import RowAdmin, confirm_action, list_link, state_mark
from kernel import clock


@admin.register(Agent)
class AgentAdmin(RowAdmin):
    list_display = (
        "agent_id",
        "state",
        "kind",
        "version",
        "running_jobs",
        "last_heartbeat_at",
        "drained_at",
        "drained_by",
        "removed_at",
        "related_links",
    )
    list_filter = ("kind", "runtime_available")
    search_fields = ("agent_id", "name")
    ordering = ("agent_id",)
    hidden_fields = ("token_sha256",)
    actions = ("drain", "resume", "remove")

    @admin.display(description="state")
    def state(self, agent: Agent) -> str:
        if agent.removed_at:
            return state_mark("removed")
        if not as_agent(agent).is_online(clock.now()):
            return state_mark("offline")
        return state_mark("draining" if agent.drained_at else "online")

    def related_rows(self, row: Agent) -> Iterable[str]:
        yield list_link("executions.step", "steps", agent_id=row.agent_id)
        yield list_link(
            "executions.step", "running steps", agent_id=row.agent_id, job_state="running"
        )

    @admin.action(description="Drain: no new runs", permissions=["view"])
    def drain(self, request: HttpRequest, rows: QuerySet[Agent]) -> HttpResponse | None:
        def do(agent: Any) -> str:
            begun = drain(agent.agent_id, by=getattr(request.user, "full_name", ""))
            return "draining" if begun else "is draining already"

        question = (
            "Drain these agents? They finish the runs that they began and take no new ones, "
            "also after a restart, until you resume them."
        )
        return confirm_action(self, request, rows, question=question, action="drain", do=do)

    @admin.action(description="Resume: end the drain", permissions=["view"])
    def resume(self, request: HttpRequest, rows: QuerySet[Agent]) -> HttpResponse | None:
        def do(agent: Any) -> str:
            return "resumed" if resume(agent.agent_id) else "was not draining"

        question = "Let these agents take new runs again?"
        return confirm_action(self, request, rows, question=question, action="resume", do=do)

    @admin.action(description="Remove: its credential ends", permissions=["view"])
    def remove(self, request: HttpRequest, rows: QuerySet[Agent]) -> HttpResponse | None:
        def do(agent: Any) -> str:
            return "removed" if remove_by_hand(agent.agent_id) else "was removed before"

        question = "Remove these agents? Their steps are lost when their leases end."
        return confirm_action(self, request, rows, question=question, action="remove", do=do)
