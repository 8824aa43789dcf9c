"""Kept environments: what a run holds stays for a while after its verdict, for people to look at.

(reference: control-plane 11.9)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypedDict
from uuid import UUID

from apps.executions.domain.states import ExecutionStatus, RunReason
from kernel import durations
from kernel.errors import PlatformError

TOLD_BEFORE: Final = timedelta(minutes=5)  # the owner is told of the end, at the latest
# failures of a run as a whole after which its services are still worth a look
_WORTH_KEEPING: Final = frozenset(
    {RunReason.STEP_FAILED, RunReason.RUN_TIMEOUT, RunReason.DEPENDENCY_REPLACED}
)


class NotKept(PlatformError):
    """The environment of the run is not kept, or not any more."""

    code = "not_kept"


@dataclass(frozen=True, slots=True)
class KeepWish:
    """For how long an environment shall be kept, 0: not; `only_failed`: not if it is Healthy."""

    keep_ms: int = 0
    only_failed: bool = False

    @property
    def time(self) -> timedelta:
        return timedelta(milliseconds=self.keep_ms)

    @property
    def time_text(self) -> str:
        return durations.format_duration(self.keep_ms / 1000)

    def applies_to(self, verdict: ExecutionStatus, reason: str) -> bool:
        """Return whether an environment is kept that ends with this verdict and reason."""
        if not self.keep_ms:
            return False
        if verdict is ExecutionStatus.HEALTHY:
            return not self.only_failed
        return verdict is ExecutionStatus.FAILED and reason in _WORTH_KEEPING


def keep_wish(asked_ms: int | None, *, default_ms: int) -> KeepWish:
    """Return the wish of a launch; without one it is the profile's, which is for failures alone."""
    if asked_ms is None:
        return KeepWish(default_ms, only_failed=True)
    return KeepWish(asked_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRun:
    """A run whose environment is kept; `agent_id`: the supervisor that has its units."""

    execution_pk: UUID
    run_id: str
    workspace_id: UUID
    owner_id: UUID
    agent_id: str
    snapshot_id: UUID
    until: datetime


class _KeepTimes(TypedDict, total=False):
    until: str
    endedAt: str
    endedBy: str


class KeepBody(_KeepTimes):
    """How the environment of a run is kept, as on the wire; `until` from the verdict on."""

    keepAliveMs: int
    onlyFailed: bool


def not_kept_warning(limit: int) -> str:
    return (
        f"the environment is not kept: this workspace keeps {limit} already; "
        "end one of them (EXECUTION_MAX_KEPT)"
    )


def keep_nudge(run_id: str) -> str:
    """Return the nudge after a change of what is kept of a run, and of what people do in it."""
    return f"kept:{run_id}"


def tell_at(until: datetime, keep_ms: int) -> datetime:
    """Return when the owner is told of the end: 5 min before, or a quarter of a shorter time."""
    return until - min(TOLD_BEFORE, timedelta(milliseconds=keep_ms) / 4)
