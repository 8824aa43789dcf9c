"""The supervisor of an environment: whether it lives, and when what it left is a zombie.

(reference: control-plane 17)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from apps.executions.api import RunFacts
from kernel import durations

ALIVE_WITHIN: Final = timedelta(seconds=30)
DEAD_AFTER: Final = timedelta(seconds=120)
ZOMBIE_AFTER: Final = timedelta(seconds=30)
TEARDOWN_WITHIN: Final = timedelta(seconds=60)


class OrchestratorState(StrEnum):
    ALIVE = "alive"
    STALE = "stale"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorRecord:
    """A supervisor as it registered; `is_gone`: a look at its own host found no such process."""

    agent_id: str
    pid: int | None
    last_heartbeat_at: datetime
    is_gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadTime:
    """The first and the last look that found containers at work for a dead orchestrator."""

    since: datetime
    seen_at: datetime

    @property
    def is_long_enough(self) -> bool:
        return self.seen_at - self.since >= ZOMBIE_AFTER


def orchestrator_state(
    run_id: str, run: RunFacts | None, orchestrator: OrchestratorRecord | None, *, now: datetime
) -> OrchestratorState:
    """Return the state by the first rule that matches; `run` is None if the store has none.

    A run that is not over and whose supervisor has no record is `stale`: nothing proves its death.
    """
    silent = now - orchestrator.last_heartbeat_at if orchestrator else None
    rules = (
        (not run_id, OrchestratorState.UNKNOWN),
        (is_kept(run, now=now), OrchestratorState.ALIVE),
        (run is None or run.is_over, OrchestratorState.DEAD),
        (silent is None, OrchestratorState.STALE),
        (silent is not None and silent <= ALIVE_WITHIN, OrchestratorState.ALIVE),
        (orchestrator is not None and orchestrator.is_gone, OrchestratorState.DEAD),
        (silent is not None and silent > DEAD_AFTER, OrchestratorState.DEAD),
        (True, OrchestratorState.STALE),
    )
    return next(state for holds, state in rules if holds)


def is_kept(run: RunFacts | None, *, now: datetime) -> bool:
    """Return whether somebody keeps the world of the run alive."""
    until = run.keep_alive_until if run is not None else None
    return until is not None and until > now


def is_in_teardown(run: RunFacts | None, *, now: datetime) -> bool:
    """Return whether the run ended so recently that its supervisor may still remove its things."""
    ended = run.finished_at if run is not None else None
    return ended is not None and now - ended <= TEARDOWN_WITHIN


def is_zombie(
    state: OrchestratorState,
    dead: DeadTime | None,
    *,
    is_running: bool,
    in_teardown: bool,
) -> bool:
    """Return whether containers run for nobody, and have done so on two looks far enough apart."""
    if not is_running or state is not OrchestratorState.DEAD or in_teardown:
        return False
    return dead is not None and dead.is_long_enough


def advance_dead_times(
    known: Mapping[str, DeadTime], dead: Collection[str], *, looked_at: datetime
) -> dict[str, DeadTime]:
    """Return the times of the runs that a look found dead: since the first look that did.

    A look that is older than the last one changes nothing.
    """
    advanced = {}
    for run_id in dead:
        before = known.get(run_id)
        since = before.since if before else looked_at
        seen_at = max(before.seen_at, looked_at) if before else looked_at
        advanced[run_id] = DeadTime(since=min(since, looked_at), seen_at=seen_at)
    return advanced


def death_reason(
    run: RunFacts | None, orchestrator: OrchestratorRecord | None, *, now: datetime
) -> str:
    """Return in words why the orchestrator counts as dead."""
    if run is None:
        return "the store has no run with this id"
    if run.is_over:
        ended = f" {_ago(now - run.finished_at)} ago" if run.finished_at else ""
        return f"its run ended{ended} ({run.status})"
    if orchestrator is None:
        return "its supervisor is not registered"
    silent = _ago(now - orchestrator.last_heartbeat_at)
    if orchestrator.is_gone:
        process = f"process {orchestrator.pid} of " if orchestrator.pid else ""
        return f"{process}{orchestrator.agent_id} is gone, silent for {silent}"
    return f"{orchestrator.agent_id} has been silent for {silent}"


def _ago(span: timedelta) -> str:
    return durations.format_duration(max(0, int(span.total_seconds())))
