"""Lists and figures for the HTTP API, commands and metrics: reads only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Count

from kernel import clock
from sync_stack.core.tasks import State
from sync_stack.orchestrator.models import Drift, LedgerUnit, Task


def waiting_by_state() -> dict[str, int]:
    live = [State.PENDING, State.RUNNING, State.RETRYING]
    rows = Task.objects.filter(state__in=live).values_list("state").annotate(Count("id"))
    return dict.fromkeys(map(str, live), 0) | dict(rows)


def oldest_pending_s() -> float:
    first = Task.objects.filter(state=State.PENDING).order_by("id").first()
    return (clock.now() - first.created_at).total_seconds() if first else 0.0


def stale_units() -> int:
    return LedgerUnit.objects.exclude(stale_since="").count()


def store_answers() -> None:
    """Raises the store's error when it cannot be used."""
    Task.objects.order_by("id").values_list("id", flat=True).first()
    connection.close_if_unusable_or_obsolete()


def list_tasks(
    where: Mapping[str, Any], facets: Sequence[str], *, before: str, limit: int
) -> list[Task]:
    """Newest first; `facets` are beginnings of lines of the task's facets."""
    rows = Task.objects.filter(**where).order_by("-id")
    for facet in facets:
        rows = rows.filter(facets__contains=f"\n{facet}")
    if before:
        rows = rows.filter(id__lt=before)
    return list(rows[:limit])


def list_units(where: Mapping[str, Any], *, after: str, limit: int) -> list[LedgerUnit]:
    rows = LedgerUnit.objects.filter(**where, id__gt=after).order_by("id").defer("content")
    return list(rows[:limit])


def knows_rule(name: str) -> bool:
    """Whether a unit or a task is of this rule."""
    return (
        LedgerUnit.objects.filter(rule_id=name).exists()
        or Task.objects.filter(facets__contains=f"\nrule:{name}\n").exists()
    )


def rules_of_units() -> set[str]:
    return set(LedgerUnit.objects.values_list("rule_id", flat=True))


def list_drift(
    where: Mapping[str, Any], *, since: datetime | None, before: str, limit: int
) -> list[Drift]:
    rows = Drift.objects.filter(**where).order_by("-id")
    if since is not None:
        rows = rows.filter(last_seen_at__gte=since)
    if before:
        rows = rows.filter(id__lt=before)
    return list(rows[:limit])
