"""Which runs a caller may see: those of the caller's workspace, for admins all."""

from __future__ import annotations

import re
from typing import Final

from django.db.models import QuerySet

from apps.accounts.api import Principal, visible_workspaces
from apps.executions.domain.errors import ExecutionNotFound
from apps.executions.models import Execution

_RUN_ID: Final = re.compile(r"^run-[0-9a-f]{12}\Z")


def all_runs() -> QuerySet[Execution, Execution]:
    """Every run that is not deleted, whoever asks: for the dispatcher and commands."""
    return Execution.objects.filter(deleted_at=None)


def visible_runs(
    principal: Principal, *, workspace_id: str | None = None
) -> QuerySet[Execution, Execution]:
    """The runs that `principal` may see, of one workspace when `workspace_id` is given.

    Raises InvalidInput (invalid_parameter) when that is no UUID.
    """
    workspaces = visible_workspaces(principal, workspace_id)
    runs = all_runs()
    return runs if workspaces is None else runs.filter(workspace_id__in=list(workspaces))


def get_execution(principal: Principal, run_id: str) -> Execution:
    """Raises ExecutionNotFound, with one text for unknown, deleted and foreign runs."""
    return find_run(visible_runs(principal), run_id)


def find_run(runs: QuerySet[Execution, Execution], run_id: str) -> Execution:
    """The run of that id among `runs`. Raises ExecutionNotFound, for what is no id too."""
    row = runs.filter(run_id=run_id).first() if _RUN_ID.match(run_id) else None
    if row is None:
        raise ExecutionNotFound
    return row
