"""Which deliveries of a ref are about a commit that it has left since.

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
    """The tasks of those waiting whose commit the ref has left; `heads` is what its host shows.

    Either a later delivery moved on from the commit, and waits for the host itself if need be; or
    deliveries that came in any order lead from it to what the host shows. Where they lead back, as
    a rewind does, nobody can tell.
    """
    onward: dict[str, set[str]] = {}
    newest: dict[str, str] = {}
    for move in known:
        onward.setdefault(move.before, set()).add(move.commit)
        newest[move.before] = max(newest.get(move.before, ""), move.task_id)
    return frozenset(
        move.task_id
        for move in waiting
        if newest.get(move.commit, "") > move.task_id or _leads_to(heads, move, onward)
    )


def _leads_to(
    heads: Collection[str], move: RefUpdate, onward: Mapping[str, Collection[str]]
) -> bool:
    after: set[str] = set()
    to_look_at = [move.commit]
    while to_look_at:
        found = set(onward.get(to_look_at.pop(), ())) - after
        after |= found
        to_look_at += found
    returns = move.commit in after or move.before in after
    return not returns and not after.isdisjoint(heads)
