"""What the admin pages of all apps are made of: rows to look at, and actions that are confirmed.

Other apps' `admin` derives from this. The machine writes these rows, so nobody edits them here: an
action calls a use case, asks first, and leaves a line in the history of the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.admin.models import LogEntry
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

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


def confirmed(
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
    search_fields = ("path", "user_id", "workspace_id", "request_id", "remote_addr")
    ordering = ("-time",)


@admin.register(LogEntry)
class LogEntryAdmin(RowAdmin):
    """What administrators did here."""

    list_display = ("action_time", "user", "content_type", "object_repr", "change_message")
    list_select_related = ("user", "content_type")
    search_fields = ("object_repr", "change_message", "user__email")
    ordering = ("-action_time",)
