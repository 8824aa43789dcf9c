"""What the admin pages of all apps are made of: rows to look at, and actions that are confirmed.

Other apps' `admin` derives from this. The machine writes these rows, so nobody edits them here: an
action calls a use case, asks first, and leaves a line in the history of the row. Links name a
model as Django does, `<app>.<model>`, so that an admin can link to rows that it may not import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.admin.models import LogEntry
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join

from apps.operations.models import AuditRecord
from kernel.errors import PlatformError

_MAX_ROWS: Final = 200  # that one action takes


class RowAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's has no []
    """Lists and pages of rows; what `User.has_perm` grants is to look."""

    list_per_page = 50
    show_full_result_count = False  # tables may be large
    hidden_fields: ClassVar[tuple[str, ...]] = ()  # of credentials

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return self.hidden_fields

    def related_rows(self, row: Any) -> Iterable[str]:
        """Return links to the rows that belong to this one; empty texts are left out."""
        return ()

    @admin.display(description="related")
    def related_links(self, row: Any) -> str:
        links = [link for link in self.related_rows(row) if link]
        return format_html_join(" · ", "{}", [(link,) for link in links])

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Return the links, if this class has any, before the columns."""
        columns = [name for name in super().get_fields(request, obj) if name != "related_links"]
        has_links = type(self).related_rows is not RowAdmin.related_rows
        return ["related_links", *columns] if has_links else columns

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("related_links",)


def row_link(model: str, key: object, text: str = "") -> str:
    """Return a link to a row of `<app>.<model>`; an empty text without a key."""
    if not key:
        return ""
    url = reverse(f"admin:{model.replace('.', '_')}_change", args=[key])
    return format_html('<a href="{}">{}</a>', url, text or key)


def list_link(model: str, text: str, **where: object) -> str:
    """Return a link to the rows of `<app>.<model>` that `where` selects."""
    url = reverse(f"admin:{model.replace('.', '_')}_changelist")
    return format_html('<a href="{}?{}">{}</a>', url, urlencode(where), text)


def state_mark(state: str) -> str:
    """Return a state in the color that static/console/css/admin.css has for it."""
    return format_html('<span class="state" data-state="{}">{}</span>', state.lower(), state)


def confirm_action(
    model_admin: admin.ModelAdmin[Any],
    request: HttpRequest,
    rows: QuerySet[Any],
    *,
    question: str,
    action: str,
    do: Callable[[Model], str],
) -> HttpResponse | None:
    """Ask, then `do` it to each row and log what it returns; a refusal is shown and stops nothing.

    `action`: the name of the action, as the list posts it.
    """
    chosen = list(rows[: _MAX_ROWS + 1])
    if len(chosen) > _MAX_ROWS:
        messages.error(request, f"Choose at most {_MAX_ROWS} rows; nothing was done.")
        return None
    if "confirmed" not in request.POST:
        context = {
            **model_admin.admin_site.each_context(request),
            "title": question,
            "rows": chosen,
            "action": action,
            "opts": model_admin.opts,
            "action_checkbox_name": helpers.ACTION_CHECKBOX_NAME,
        }
        return TemplateResponse(request, "admin/confirm_action.html", context)
    for row in chosen:
        try:
            done = do(row)
        except PlatformError as error:
            messages.error(request, f"{row}: {error.detail}")
            continue
        model_admin.log_change(request, row, done)
        messages.success(request, f"{row}: {done}")
    return None


@admin.register(AuditRecord)
class AuditRecordAdmin(RowAdmin):
    list_display = ("time", "method", "path", "status", "user_id", "remote_addr", "duration_ms")
    list_filter = ("method", "status")
    search_fields = ("path", "user_id", "workspace_id", "request_id", "remote_addr", "note")
    ordering = ("-time",)

    def related_rows(self, row: AuditRecord) -> Iterable[str]:
        yield row_link("accounts.user", row.user_id, "user")
        yield row_link("accounts.workspace", row.workspace_id, "workspace")
        if row.agent_id:
            yield list_link("agents.agent", "agent", agent_id=row.agent_id)


@admin.register(LogEntry)
class LogEntryAdmin(RowAdmin):
    """What administrators did here."""

    list_display = ("action_time", "user", "content_type", "object_repr", "change_message")
    list_select_related = ("user", "content_type")
    search_fields = ("object_repr", "change_message", "user__email")
    ordering = ("-action_time",)
