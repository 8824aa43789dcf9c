"""Topics of streams in the admin."""

from __future__ import annotations

from django.contrib import admin

from apps.operations.admin import RowAdmin
from apps.streams.models import Topic


@admin.register(Topic)
class TopicAdmin(RowAdmin):
    list_display = ("name", "last_id", "closed")
    search_fields = ("name",)
    ordering = ("name",)
