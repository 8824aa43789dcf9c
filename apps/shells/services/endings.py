"""The end of sessions: by their holder, by who opened them, or because a runner is gone.

The row says who was first. What a session wrote is deleted an hour later.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from apps.executions.api import keep_nudge, run_facts
from apps.operations.api import Audited, trail
from apps.shells import conf
from apps.shells.domain.records import input_topic, output_topic
from apps.shells.domain.states import END_WORDS, LIVE, EndCode, ShellState
from apps.shells.models import ShellSession
from apps.streams.api import close_topic, delete_topics, nudge, unit_of_work
from kernel import clock, ids

logger = logging.getLogger("partita.audit")
OUTPUT_KEPT_FOR: Final = timedelta(hours=1)
_A_SWEEP: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """Why a session ends; `more` is added to the words of the code."""

    code: EndCode
    more: str = ""
    exit_code: int | None = None

    @property
    def detail(self) -> str:
        return f"{END_WORDS[self.code]}{self.more}"[:1000]


def end_session(
    pk: UUID, end: SessionEnd, *, states: Collection[str], holder: str | None = None
) -> bool:
    """End a session that is in one of these states; False if it is not, or another one's.

    Followers of the output get its end after the last record. The ending is audited.
    """
    row = _end_row(pk, end, states, holder)
    if row is not None:
        audit(row, "SHELL-END")
    return row is not None


@unit_of_work
def _end_row(
    pk: UUID, end: SessionEnd, states: Collection[str], holder: str | None
) -> ShellSession | None:
    rows = ShellSession.objects.filter(pk=pk, state__in=list(states))
    if holder is not None:
        rows = rows.filter(holder=holder)
    ended = rows.update(
        state=ShellState.ENDED,
        slot=str(pk),
        ended_at=clock.now(),
        end_code=end.code,
        end_detail=end.detail,
        exit_code=end.exit_code,
    )
    if not ended:
        return None
    close_topic(output_topic(pk), end.code)
    delete_topics([input_topic(pk)])
    row = ShellSession.objects.get(pk=pk)
    nudge(keep_nudge(row.run_id))
    return row


def end_abandoned(workspace_id: UUID | None = None) -> None:
    """End the sessions whose runner is gone, or that no runner has opened in time."""
    late = ShellSession.objects.filter(state__in=LIVE, lease_expires_at__lt=clock.now())
    if workspace_id is not None:
        late = late.filter(workspace_id=workspace_id)
    for row in list(late[:_A_SWEEP]):
        end_if_abandoned(row)


def end_if_abandoned(row: ShellSession) -> bool:
    """End the session if its lease has ended; return whether it has."""
    if row.state not in LIVE or row.lease_expires_at >= clock.now():
        return False
    if row.state == ShellState.OPENING and not row.holder:
        end = SessionEnd(code=EndCode.NOT_OPENED, more=": no runner of the step answered in time")
    else:
        end = SessionEnd(code=EndCode.RUNNER_GONE)
    return end_session(row.pk, end, states=[row.state], holder=row.holder)


def remove_old_sessions() -> None:
    """Delete what sessions wrote an hour after their end, and rows of runs that are gone."""
    old = ShellSession.objects.filter(
        trimmed=False, ended_at__lt=clock.now() - OUTPUT_KEPT_FOR
    ).values_list("pk", flat=True)
    if pks := list(old[:_A_SWEEP]):
        delete_topics([name for pk in pks for name in (output_topic(pk), input_topic(pk))])
        ShellSession.objects.filter(pk__in=pks).update(trimmed=True)


def remove_sessions_of_deleted_runs() -> None:
    """Delete the rows and topics of sessions whose run is deleted."""
    runs = set(ShellSession.objects.filter(state=ShellState.ENDED).values_list("run_id", flat=True))
    if not (gone := sorted(runs - run_facts(runs).keys())[:_A_SWEEP]):
        return
    rows = ShellSession.objects.filter(run_id__in=gone, state=ShellState.ENDED)
    pks = list(rows.values_list("pk", flat=True))
    delete_topics([name for pk in pks for name in (output_topic(pk), input_topic(pk))])
    rows.delete()


def audit(row: ShellSession, method: str) -> None:
    """Record that a session was opened or has ended: who, from which address, for how long."""
    since = row.opened_at or row.created_at
    took = (row.ended_at or since) - since
    record = Audited(
        time=clock.now(),
        request_id=str(ids.new_uuid()),
        method=method,
        route="shell",
        path=f"/api/v1/executions/{row.run_id}/shells/{row.pk}",
        status=200,
        duration_ms=max(0, round(took.total_seconds() * 1000)),
        remote_addr=row.opened_from,
        user_id=str(row.opened_by),
        workspace_id=str(row.workspace_id),
        agent_id=row.agent_id,
    )
    logger.info("%s", json.dumps(record.as_dict(), separators=(",", ":")))
    if conf.keeps_audit_rows():
        trail.put(record)
