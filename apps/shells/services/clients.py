"""Sessions, the side of a client that types and reads over a WebSocket.

(reference: control-plane 11.7)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from apps.accounts.api import Principal
from apps.executions.api import get_execution
from apps.shells.domain.documents import ShellDocument
from apps.shells.domain.records import TerminalSize, input_record, input_topic, output_topic
from apps.shells.domain.states import LIVE, ShellNotFound
from apps.shells.models import ShellSession
from apps.shells.selectors import shell_document
from apps.shells.services.endings import end_if_abandoned
from apps.shells.services.sessions import find_session, require_access
from apps.streams.api import Batch, TopicNotOpen, append, last_ids, nudge, unit_of_work
from kernel import clock


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedShell:
    """A session that the caller has opened and may type into; `topic`: what it writes."""

    pk: UUID
    topic: str
    document: ShellDocument


def join_shell(principal: Principal, shell_id: str) -> JoinedShell:
    """Return the session for its opener, ended ones too; raise ShellNotFound and as to open."""
    row = find_session(shell_id)
    if row.opened_by != principal.user_id or row.trimmed:
        raise ShellNotFound
    run = get_execution(principal, row.run_id)
    require_access(principal, run.owner_id)
    return JoinedShell(
        pk=row.pk, topic=output_topic(row.pk), document=shell_document(row, principal)
    )


def describe_shell(principal: Principal, pk: UUID) -> ShellDocument:
    """Return the session as it is now; raise ShellNotFound."""
    return shell_document(find_session(str(pk)), principal)


def keep_attached(pk: UUID, *, read_id: int) -> bool:
    """Say that a client is there and which output it got; return whether the session lives.

    A session whose runner is gone ends here.
    """
    row = ShellSession.objects.filter(pk=pk).first()
    if row is None or end_if_abandoned(row) or row.state not in LIVE:
        return False
    return _store_attached(pk, read_id, clock.now())


@unit_of_work
def _store_attached(pk: UUID, read_id: int, now: datetime) -> bool:
    live = ShellSession.objects.filter(pk=pk, state__in=LIVE)
    stored = live.update(client_seen_at=now)
    live.filter(read_id__lt=read_id).update(read_id=read_id)
    nudge(input_topic(pk))
    return bool(stored)


def type_into(pk: UUID, typed: Sequence[bytes | TerminalSize]) -> int:
    """Append what was typed, in order; return its last number, 0 if the session has ended."""
    topic = input_topic(pk)
    batch = Batch(topic=topic, source="", records=[input_record(each) for each in typed])
    try:
        return append([batch])[topic]
    except TopicNotOpen:
        return 0


def count_untaken(pk: UUID) -> int:
    """Return how many messages of the input the runner has not taken yet."""
    row = ShellSession.objects.filter(pk=pk).values_list("taken_id", flat=True).first()
    last = last_ids([input_topic(pk)]).get(input_topic(pk), 0)
    return max(0, last - (row or 0))
