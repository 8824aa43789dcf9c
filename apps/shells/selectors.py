"""Reads of shell sessions."""

from __future__ import annotations

from typing import Final

from apps.accounts.api import Principal
from apps.executions.api import get_execution
from apps.shells.domain.documents import ShellDocument, ShellList
from apps.shells.domain.states import ShellState
from apps.shells.models import ShellSession
from kernel.clock import rfc3339

MOST_LISTED: Final = 100


def shells_of_run(principal: Principal, run_id: str) -> ShellList:
    """Return the newest sessions of a run that the caller may see; raise ExecutionNotFound."""
    get_execution(principal, run_id)
    rows = ShellSession.objects.filter(run_id=run_id).order_by("-created_at")[:MOST_LISTED]
    return {"shells": [shell_document(row, principal) for row in rows]}


def shell_document(row: ShellSession, principal: Principal) -> ShellDocument:
    document: ShellDocument = {
        "shellId": str(row.pk),
        "executionId": row.run_id,
        "stepId": row.step_id,
        "state": row.state,
        "command": list(row.command),
        "openedBy": row.opened_by_label,
        "isYours": row.opened_by == principal.user_id,
        "createdAt": rfc3339(row.created_at),
        "socket": f"/ws/shells/{row.pk}",
    }
    known: dict[str, object] = {}
    if row.notice:
        known["notice"] = row.notice
    if row.opened_at:
        known["openedAt"] = rfc3339(row.opened_at)
    if row.ended_at:
        known["endedAt"] = rfc3339(row.ended_at)
    if row.exit_code is not None:
        known["exitCode"] = row.exit_code
    if row.state == ShellState.ENDED:
        known["end"] = {"code": row.end_code, "detail": row.end_detail}
    document.update(known)  # type: ignore[typeddict-item]  # keys of the document
    return document
