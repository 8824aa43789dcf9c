"""Named queries of runs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Self, TypeVar

from django.db.models import Model, Q, QuerySet

from apps.accounts.api import Principal, visible_workspaces
from apps.executions.domain.runs import RunFilter

Row = TypeVar("Row", bound=Model)
_SEARCHED: Final = (
    "run_id",
    "suite_id",
    "suite_title",
    "profile",
    "author",
    "launched_by",
    "branch",
    "commit",
    "message",
)


class ExecutionQuerySet(QuerySet[Row]):
    def not_deleted(self) -> Self:
        return self.filter(deleted_at=None)

    def visible_to(self, principal: Principal, *, workspace_id: str | None = None) -> Self:
        """Return the runs of the caller's workspaces, for administrators of all workspaces.

        A CI session sees those of its suites. `workspace_id` limits them to one; raise InvalidInput
        (invalid_parameter) if it is not a UUID.
        """
        workspaces = visible_workspaces(principal, workspace_id)
        runs = self.not_deleted()
        if principal.suites is not None:
            runs = runs.of_suites(principal.suites)
        return runs if workspaces is None else runs.filter(workspace_id__in=list(workspaces))

    def of_suites(self, suites: Iterable[str]) -> Self:
        """Return the runs of these suites; a `*` at the end stands for any rest of an id.

        Beginnings are patterns: `startswith` of SQLite takes Shop- for shop-, and a range needs the
        order of bytes, which PostgreSQL has in few collations.
        """
        reached = Q(pk__in=[])
        for each in suites:
            begins = f"^{re.escape(each[:-1])}"
            is_prefix = each.endswith("*")
            reached |= Q(suite_id__regex=begins) if is_prefix else Q(suite_id=each)
        return self.filter(reached)

    def matching(self, wanted: RunFilter) -> Self:
        equal = {
            "suite_id": wanted.suite_id,
            "profile": wanted.profile,
            "backend_id": wanted.backend_id,
            "trigger": wanted.trigger,
            "started_at__gte": wanted.since,
            "started_at__lt": wanted.until,
            "status__in": list(wanted.statuses),
        }
        runs = self.filter(**{name: value for name, value in equal.items() if value})
        if wanted.author:
            runs = runs.filter(author__icontains=wanted.author)
        if wanted.live_since:
            runs = runs.filter(Q(finished_at=None) | Q(finished_at__gte=wanted.live_since))
        if not wanted.words:
            return runs
        anywhere = Q()
        for field in _SEARCHED:
            anywhere |= Q(**{f"{field}__icontains": wanted.words})
        return runs.filter(anywhere)
