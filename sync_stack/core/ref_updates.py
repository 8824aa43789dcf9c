"""Deliveries about a commit that the ref has left since.

(reference: sync-stack 4.4)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple


class RefUpdate(NamedTuple):
    """A delivery: the ref went from `before` (empty: it is new) to `commit`. Later ids: later."""

    task_id: str
    before: str
    commit: str


def outdated_tasks(
    waiting: Iterable[RefUpdate], known: Iterable[RefUpdate], heads: Collection[str]
) -> frozenset[str]:
    """Return the waiting tasks whose commit the ref has left; `heads`: the refs at the host.

    Either a later delivery starts at the commit, or deliveries in any order lead from it to a head
    of the host. Deliveries that lead back, as after a rewind, prove nothing.
    """
    onward: dict[str, set[str]] = {}
    newest: dict[str, str] = {}
    for update in known:
        onward.setdefault(update.before, set()).add(update.commit)
        newest[update.before] = max(newest.get(update.before, ""), update.task_id)
    return frozenset(
        update.task_id
        for update in waiting
        if newest.get(update.commit, "") > update.task_id or _leads_to(heads, update, onward)
    )


def _leads_to(
    heads: Collection[str], update: RefUpdate, onward: Mapping[str, Collection[str]]
) -> bool:
    after: set[str] = set()
    pending = [update.commit]
    while pending:
        found = set(onward.get(pending.pop(), ())) - after
        after |= found
        pending += found
    returns = update.commit in after or update.before in after
    return not returns and not after.isdisjoint(heads)
