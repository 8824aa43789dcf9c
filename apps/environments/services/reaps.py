"""Reaps, the side of who asks: mark what is to go, wait for the runners, say what is gone.

A reap is rows. Whoever began one may die at any moment: a runner goes on with it.
(reference: control-plane 17)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Q

from apps.accounts.api import Forbidden, Principal, Role
from apps.environments import conf
from apps.environments.domain.documents import CleanupResult
from apps.environments.domain.inventory import RESOURCE_KINDS, SeenResource, TrackedEnvironment
from apps.environments.domain.orchestrators import OrchestratorState
from apps.environments.domain.reaps import (
    ABANDONED_AFTER,
    ALL_ENVIRONMENTS,
    AUTOMATIC_AFTER,
    CANCEL_WITHIN,
    KEPT_FOR,
    MARK_LEASE,
    SWEPT_WITHIN,
    TAKEN_WITHIN,
    ReapInProgress,
    RuntimeNotReached,
    SandboxNotFound,
    cleanup_result,
    overlaps,
    split_by_reach,
    unite_marks,
)
from apps.environments.domain.states import OPEN_STATES, ReapState
from apps.environments.domain.wire import NO_RUNTIME
from apps.environments.models import Reap, ReapPart
from apps.environments.selectors import (
    InventoryState,
    pack_resources,
    read_inventory,
    removed_counts,
    unpack_seen,
    viewer_of,
)
from apps.environments.services.inventory_looks import (
    ENVIRONMENTS_NUDGE,
    LOOK_NUDGE,
    ensure_row,
    raise_version,
)
from apps.environments.services.snapshots import look_again
from apps.environments.services.sweeps import close_reap
from apps.executions.api import RunFacts, cancel_run_of_environment, run_facts
from apps.streams.api import listen, nudge, unit_of_work
from kernel import clock

log = logging.getLogger("partita.environments")
AUTOMATIC: Final = "ENVIRONMENT_AUTO_REAP"
_POLL_S: Final = 0.25
_NO_TAKER: Final = "no runner took the reap within 10 s; start `up` or a runner, and try again"


def reap(principal: Principal, sandbox_id: str, *, dry_run: bool = False) -> CleanupResult:
    """Remove one environment and wait for it; a live run is canceled first.

    A dry run counts what would go. Raise SandboxNotFound, Forbidden (role_required),
    ReapInProgress or RuntimeNotReached.
    """
    state = look_again()
    viewer = viewer_of(principal)
    found = [
        each for each in state.environments if each.sandbox_id == sandbox_id and viewer.sees(each)
    ]
    if state.available and not found:
        raise SandboxNotFound
    principal.require(Role.RUNNER)
    return _reap(principal.label, sandbox_id, state, found, dry_run=dry_run, only_zombies=False)


def reap_all(
    principal: Principal, *, dry_run: bool = False, only_zombies: bool = False
) -> CleanupResult:
    """Remove every tracked environment, or only zombies, and wait for it; as `reap`.

    Raise Forbidden (admin_required) for others than administrators.
    """
    require_administrator(principal)
    state = look_again()
    found = [each for each in state.environments if each.is_zombie or not only_zombies]
    return _reap(
        principal.label, ALL_ENVIRONMENTS, state, found, dry_run=dry_run, only_zombies=only_zombies
    )


def require_administrator(principal: Principal) -> None:
    if not principal.is_admin:
        raise Forbidden("only administrators may remove all environments")


def _reap(
    requested_by: str,
    target: str,
    state: InventoryState,
    found: Sequence[TrackedEnvironment],
    *,
    dry_run: bool,
    only_zombies: bool,
) -> CleanupResult:
    if not state.available:
        raise RuntimeNotReached(NO_RUNTIME)
    if dry_run:
        counts = [sum(len(each.of_kind(kind)) for each in found) for kind in RESOURCE_KINDS]
        return cleanup_result(target, counts, warnings=_plan(found), dry_run=True)
    ensure_row()
    pk = begin_reap(requested_by, target, found, only_zombies=only_zombies)
    log.info("%s removes %s", requested_by, target, extra={"event": "environment_reap"})
    return await_result(pk)


def _plan(found: Sequence[TrackedEnvironment]) -> list[str]:
    """Return what a reap does beside removing: runs that it cancels."""
    return [
        f"{each.run_id} is {each.run.status}: it is canceled first"
        for each in found
        if each.run is not None and not each.run.is_over
    ]


@unit_of_work
def begin_reap(
    requested_by: str,
    target: str,
    found: Sequence[TrackedEnvironment],
    *,
    only_zombies: bool,
) -> UUID:
    """Store a reap of these environments; raise ReapInProgress if another may touch them."""
    raise_version()
    now = clock.now()
    for row in Reap.objects.filter(state__in=OPEN_STATES):
        if row.created_at < now - ABANDONED_AFTER:
            close_reap(row, now, "it was abandoned: no runner finished it within 10 min")
        elif overlaps(row.target, target):
            raise ReapInProgress(row.target)
    marked = [each for tracked in found for each in tracked.resources]
    workspaces = {tracked.workspace_id for tracked in found}
    is_of_one = len(workspaces) == 1 and target != ALL_ENVIRONMENTS
    row = Reap.objects.create(
        target=target,
        only_zombies=only_zombies,
        requested_by=requested_by[:700],
        workspace_id=workspaces.pop() if is_of_one else "",
        sandbox_ids=[tracked.sandbox_id for tracked in found],
        run_ids=[tracked.run_id for tracked in found if tracked.run_id],
        marked=pack_resources(marked),
        marked_count=len(marked),
        lease_expires_at=now + MARK_LEASE,
        created_at=now,
    )
    Reap.objects.filter(state=ReapState.DONE, finished_at__lt=now - KEPT_FOR).delete()
    nudge(ENVIRONMENTS_NUDGE)
    nudge(LOOK_NUDGE)
    return row.pk


def mark(pk: UUID) -> bool:
    """Cancel the live runs of a reap and store what is to go; return whether that is over.

    Waits for nothing: call it until it returns True. Runs get 30 s for their steps.
    """
    row = Reap.objects.filter(pk=pk).first()
    if row is None or row.state != ReapState.MARKING:
        return True
    ending = [  # a list, so that every run is asked
        run.is_canceling or cancel_run_of_environment(run.run_id, by=row.requested_by)
        for run in _live_runs(row)
    ]
    now = clock.now()
    if any(ending) and now < row.created_at + CANCEL_WITHIN:
        _extend_marking(pk, now)
        return False
    wanted = set(row.sandbox_ids)
    seen = [
        each
        for tracked in read_inventory().environments
        if tracked.sandbox_id in wanted
        for each in tracked.resources
    ]
    _end_marking(pk, unite_marks(unpack_seen(row.marked), seen), late=any(ending))
    return True


def _live_runs(row: Reap) -> list[RunFacts]:
    """Return the runs to cancel; of a zombie sweep only those whose orchestrator is still dead."""
    live = [run for run in run_facts(row.run_ids).values() if not run.is_over]
    if not (row.only_zombies and live):
        return live
    states = {each.run_id: each.state for each in read_inventory().environments}
    return [run for run in live if states.get(run.run_id) is OrchestratorState.DEAD]


@unit_of_work
def _extend_marking(pk: UUID, now: datetime) -> None:
    marking = Reap.objects.filter(pk=pk, state=ReapState.MARKING)
    marking.update(lease_expires_at=now + MARK_LEASE)


@unit_of_work
def _end_marking(pk: UUID, marked: Sequence[SeenResource], *, late: bool) -> None:
    raise_version()
    now = clock.now()
    warnings = ["a run did not end within 30 s; its resources are removed anyway"]
    changed = Reap.objects.filter(pk=pk, state=ReapState.MARKING).update(
        state=ReapState.READY,
        ready_at=now,
        marked=b"",
        marked_count=len(marked),
        warnings=warnings if late else [],
    )
    if not changed:
        return
    parts = split_by_reach(marked)
    for agents, resources in parts.items():
        ReapPart.objects.create(
            reap_id=pk, agents=sorted(agents), resources=pack_resources(resources)
        )
    if not parts:
        close_reap(Reap.objects.get(pk=pk), now)
    nudge(ENVIRONMENTS_NUDGE)
    nudge(LOOK_NUDGE)


def await_result(pk: UUID) -> CleanupResult:
    """Mark, wait for the runners and return what is really gone.

    Raise RuntimeNotReached if no runner takes any of it within 10 s. A sweep that takes longer
    than a minute goes on without the caller, which a warning says.
    """
    woken = threading.Event()
    unlisten = listen(ENVIRONMENTS_NUDGE, woken.set)
    try:
        while not mark(pk):
            _pause(woken)
        while (row := Reap.objects.get(pk=pk)).state != ReapState.DONE:
            now = clock.now()
            since = now - (row.ready_at or now)
            if since >= TAKEN_WITHIN:
                withdraw_untaken(pk)
            if since >= SWEPT_WITHIN:
                break
            _pause(woken)
        return _result(pk)
    finally:
        unlisten()


def _pause(woken: threading.Event) -> None:
    woken.wait(_POLL_S)
    woken.clear()


def _result(pk: UUID) -> CleanupResult:
    row = Reap.objects.get(pk=pk)
    warnings = list(row.warnings)
    if row.state != ReapState.DONE:
        warnings.append("the removal continues; check again in a minute")
    elif _NO_TAKER in warnings and not any(removed_counts(row)) and len(warnings) == 1:
        raise RuntimeNotReached(_NO_TAKER)
    return cleanup_result(row.target, removed_counts(row), warnings=warnings)


@unit_of_work
def withdraw_untaken(pk: UUID) -> None:
    """End the parts of a reap that no runner has taken, with a warning."""
    raise_version()
    row = Reap.objects.get(pk=pk)
    untaken = ReapPart.objects.filter(reap_id=pk, state=ReapState.READY)
    if row.state == ReapState.DONE or not untaken.update(
        state=ReapState.DONE, warnings=[_NO_TAKER]
    ):
        return
    if not ReapPart.objects.filter(reap_id=pk).exclude(state=ReapState.DONE).exists():
        close_reap(row, clock.now())


def continue_reaps() -> None:
    """Go on with reaps whose caller is gone; called by runners, again and again."""
    now = clock.now()
    orphaned = Reap.objects.filter(state=ReapState.MARKING, lease_expires_at__lt=now)
    for pk in list(orphaned.values_list("pk", flat=True)):
        mark(pk)
    late = Q(ready_at__lt=now - SWEPT_WITHIN)
    for pk in list(Reap.objects.filter(late, state=ReapState.READY).values_list("pk", flat=True)):
        withdraw_untaken(pk)


def reap_zombies_if_set() -> None:
    """Begin a reap of old zombies if ENVIRONMENT_AUTO_REAP says so; called after looks."""
    if conf.reaps_zombies():
        reap_old_zombies(clock.now())


def reap_old_zombies(now: datetime) -> UUID | None:
    """Begin a reap of the zombies that have been ones for 10 min; None without any."""
    old = [
        each
        for each in read_inventory().environments
        if each.is_zombie and each.dead and now - each.dead.since >= AUTOMATIC_AFTER
    ]
    if not old:
        return None
    ensure_row()
    try:
        pk = begin_reap(AUTOMATIC, ALL_ENVIRONMENTS, old, only_zombies=True)
    except ReapInProgress:
        return None
    mark(pk)
    return pk
