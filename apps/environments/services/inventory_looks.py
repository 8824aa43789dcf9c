"""Looks: who wants them, when one is due, and what a supervisor saw.

Runners look only while somebody watches, a reap is open, or ENVIRONMENT_AUTO_REAP wants to know.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from django.db.models import F, Q

from apps.environments import conf
from apps.environments.domain.inventory import RuntimeLook, dead_runs, unite_looks
from apps.environments.domain.orchestrators import DeadTime, advance_dead_times
from apps.environments.domain.states import OPEN_STATES
from apps.environments.models import DeadRun, Reap, StoredLook, WatchedInventory
from apps.environments.selectors import facts_about, pack_resources
from apps.streams.api import nudge, unit_of_work
from kernel import clock

ENVIRONMENTS_NUDGE: Final = "environments"  # something differs
LOOK_NUDGE: Final = "environments-look"  # a runner has something to do
WATCHED_FOR: Final = timedelta(seconds=30)
LOOK_EVERY: Final = timedelta(seconds=5)
AUTOMATIC_LOOK_EVERY: Final = timedelta(seconds=60)
MOST_RESOURCES: Final = 5_000
_RENEWED_BEFORE: Final = timedelta(seconds=15)
_KEPT_FOR: Final = timedelta(days=1)
_ROW: Final = "inventory"


def ensure_row() -> None:
    if not WatchedInventory.objects.filter(name=_ROW).exists():
        _create_row()


@unit_of_work
def _create_row() -> None:
    WatchedInventory.objects.get_or_create(name=_ROW)


def raise_version() -> None:
    """Make use cases that begin or take a reap follow one another; first in their transaction."""
    WatchedInventory.objects.filter(name=_ROW).update(version=F("version") + 1)


def watch() -> None:
    """Say that somebody watches, for the next 30 s; runners then look every 5 s."""
    ensure_row()
    now = clock.now()
    soon = Q(watched_until=None) | Q(watched_until__lt=now + _RENEWED_BEFORE)
    if WatchedInventory.objects.filter(soon, name=_ROW).exists():
        _watch_until(now + WATCHED_FOR)


@unit_of_work
def _watch_until(instant: datetime) -> None:
    earlier = Q(watched_until=None) | Q(watched_until__lt=instant)
    WatchedInventory.objects.filter(earlier, name=_ROW).update(watched_until=instant)
    nudge(LOOK_NUDGE)


def request_look() -> datetime:
    """Ask every runner for a look at once; return the instant that its time must not be before."""
    ensure_row()
    now = clock.now()
    _want_look(now)
    return now


@unit_of_work
def _want_look(now: datetime) -> None:
    WatchedInventory.objects.filter(name=_ROW).update(
        look_wanted_at=now, watched_until=now + WATCHED_FOR
    )
    nudge(LOOK_NUDGE)


def due_looks(agent_ids: Collection[str]) -> frozenset[str]:
    """Return those of these supervisors that have to look now."""
    row = WatchedInventory.objects.filter(name=_ROW).first()
    now = clock.now()
    every = _look_interval(row, now)
    if every is None:
        return frozenset()
    looked = dict(
        StoredLook.objects.filter(agent_id__in=list(agent_ids)).values_list("agent_id", "looked_at")
    )
    wanted_at = row.look_wanted_at if row else None
    return frozenset(
        agent_id for agent_id in agent_ids if _is_due(looked.get(agent_id), every, wanted_at, now)
    )


def _look_interval(row: WatchedInventory | None, now: datetime) -> timedelta | None:
    """Return how often runners look now; None while nobody wants to know."""
    is_watched = row is not None and row.watched_until is not None and row.watched_until > now
    if is_watched or Reap.objects.filter(state__in=OPEN_STATES).exists():
        return LOOK_EVERY
    return AUTOMATIC_LOOK_EVERY if conf.reaps_zombies() else None


def _is_due(
    looked_at: datetime | None,
    every: timedelta,
    wanted_at: datetime | None,
    now: datetime,
) -> bool:
    if looked_at is None or now - looked_at >= every:
        return True
    return wanted_at is not None and looked_at < wanted_at


def record_look(look: RuntimeLook) -> None:
    """Store the newest look of a supervisor, and which runs it found dead.

    At most 5,000 resources are kept; the rest is counted. An older look changes nothing.
    """
    kept = look.resources[:MOST_RESOURCES]
    omitted = look.omitted + len(look.resources) - len(kept)
    look = replace(look, resources=kept, omitted=omitted)
    seen = unite_looks([look])
    facts = facts_about(seen, gone=look.gone, now=look.looked_at)
    _store_look(look, pack_resources(look.resources), dead_runs(seen, facts))


@unit_of_work
def _store_look(look: RuntimeLook, resources: bytes, dead: set[str]) -> None:
    values = {
        "host_id": look.host_id,
        "looked_at": look.looked_at,
        "available": look.available,
        "resources": resources,
        "omitted": look.omitted,
        "gone": sorted(look.gone),
    }
    row, is_new = StoredLook.objects.get_or_create(agent_id=look.agent_id, defaults=values)
    older = StoredLook.objects.filter(pk=row.pk, looked_at__lte=look.looked_at)
    if not is_new and not older.update(**values):
        return
    if look.available:
        _store_dead_runs(look, dead)
    StoredLook.objects.filter(looked_at__lt=look.looked_at - _KEPT_FOR).delete()
    nudge(ENVIRONMENTS_NUDGE)


def _store_dead_runs(look: RuntimeLook, dead: set[str]) -> None:
    """Advance the times of the dead runs, and forget those that this supervisor found alive."""
    rows = {row.run_id: row for row in DeadRun.objects.filter(run_id__in=list(dead))}
    known = {
        run_id: DeadTime(since=row.dead_since, seen_at=row.seen_at) for run_id, row in rows.items()
    }
    for run_id, times in advance_dead_times(known, dead, looked_at=look.looked_at).items():
        values = {"agent_id": look.agent_id, "dead_since": times.since, "seen_at": times.seen_at}
        if run_id in rows:
            DeadRun.objects.filter(pk=rows[run_id].pk).update(**values)
        else:
            DeadRun.objects.create(run_id=run_id, **values)
    alive = DeadRun.objects.filter(agent_id=look.agent_id).exclude(run_id__in=list(dead))
    alive.delete()
