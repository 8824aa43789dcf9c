"""Lists of runs, newest first."""

from __future__ import annotations

from typing import Any, Final

from django.db.models import Q, QuerySet

from apps.accounts.api import Principal
from apps.executions.domain.run_filter import RunFilter
from apps.executions.models import Execution
from apps.executions.selectors.scope import all_runs, visible_runs
from apps.executions.selectors.summaries import summaries

NEWEST_FIRST: Final = ("-started_at", "-id")
_SEARCHED: Final = (
    "run_id",
    "suite_id",
    "suite_title",
    "profile",
    "author",
    "branch",
    "commit",
    "message",
)


def matching_runs(
    principal: Principal, wanted: RunFilter, *, workspace_id: str | None = None
) -> QuerySet[Execution, Execution]:
    """The rows that `principal` may see and `wanted` lets through, unordered."""
    return _narrowed(visible_runs(principal, workspace_id=workspace_id), wanted)


def list_executions(
    principal: Principal, wanted: RunFilter | None = None, *, limit: int = 50
) -> list[dict[str, Any]]:
    """Wire Summaries of the newest matching runs."""
    rows = matching_runs(principal, wanted or RunFilter())
    return summaries(list(rows.order_by(*NEWEST_FIRST)[:limit]))


def recent_runs(*, status: str = "", suite_id: str = "", limit: int = 20) -> list[dict[str, Any]]:
    """Wire Summaries of every workspace's newest runs; `status` is a comma list. For commands."""
    statuses = frozenset(part.strip() for part in status.split(",") if part.strip())
    rows = _narrowed(all_runs(), RunFilter(statuses=statuses, suite_id=suite_id))
    return summaries(list(rows.order_by(*NEWEST_FIRST)[:limit]))


def _narrowed(
    runs: QuerySet[Execution, Execution], wanted: RunFilter
) -> QuerySet[Execution, Execution]:
    equal = {
        "suite_id": wanted.suite_id,
        "profile": wanted.profile,
        "backend_id": wanted.backend_id,
        "trigger": wanted.trigger,
        "started_at__gte": wanted.since,
        "started_at__lt": wanted.until,
        "status__in": list(wanted.statuses),
    }
    runs = runs.filter(**{name: value for name, value in equal.items() if value})
    if not wanted.words:
        return runs
    anywhere = Q()
    for field in _SEARCHED:
        anywhere |= Q(**{f"{field}__icontains": wanted.words})
    return runs.filter(anywhere)
