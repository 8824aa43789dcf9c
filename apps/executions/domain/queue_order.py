"""Who is admitted next: round-robin over workspaces, first come first served inside one."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

_NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A run in the queue."""

    run_id: str
    workspace_id: Hashable
    accepted_at: datetime


def admission_order(waiting: Iterable[Waiting], *, last_boot: Mapping[Any, datetime]) -> list[str]:
    """The run ids in the order of their admission.

    `last_boot`: workspace → when a run of it was last admitted; the one that waits longest
    since then begins, a workspace that never ran before all others.
    """
    lanes: dict[Hashable, deque[str]] = defaultdict(deque)
    for run in sorted(waiting, key=lambda run: (run.accepted_at, run.run_id)):
        lanes[run.workspace_id].append(run.run_id)
    # sorted() is stable: equal workspaces stay in the order of their oldest run
    turns = deque(sorted(lanes, key=lambda workspace: last_boot.get(workspace, _NEVER)))
    order: list[str] = []
    while turns:
        workspace = turns.popleft()
        order.append(lanes[workspace].popleft())
        if lanes[workspace]:
            turns.append(workspace)
    return order
