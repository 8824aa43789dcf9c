"""Attempts: which failures are retried, after which pause, and what may be requeued."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from apps.executions.domain.plan import PlanNode
from apps.executions.domain.states import StepReason

MAX_REQUEUES: Final = 2
PULL_ALLOWANCE: Final = timedelta(minutes=10)
# A supervisor ends an attempt at its timeout; the control plane only when that did not happen.
TIMEOUT_ALLOWANCE: Final = timedelta(seconds=60)
MOCKS_AWAY: Final = timedelta(seconds=60)  # then a step that resets mocks fails
MOCKS_PAUSE: Final = timedelta(seconds=2)  # before they are asked again
_NEVER_RETRIED: Final = frozenset(
    {
        StepReason.MOCK_SURFACE_MISSING,
        StepReason.RUNTIME_UNAVAILABLE,
        StepReason.AGENT_UNAVAILABLE,
        StepReason.AGENT_LOST,
        StepReason.UNSCHEDULABLE,
        StepReason.QUOTA_EXCEEDED,
        StepReason.ADMISSION_REFUSED,
        StepReason.CONTAINER_CONFIG,
        StepReason.INIT_FAILED,
        StepReason.CANCELED,
    }
)
_LONGEST_PAUSE: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class StepFailure:
    """Why an attempt failed."""

    reason: StepReason
    detail: str
    exit_code: int | None = None


def may_retry(node: PlanNode, reason: StepReason, *, retries_used: int) -> bool:
    """Whether a failed attempt is followed by another (reference: control-plane 11.5)."""
    if retries_used >= node.retries or reason in _NEVER_RETRIED:
        return False
    return reason is not StepReason.IMAGE_MISSING or node.has_image


def pause_before_retry(retries_used: int) -> timedelta:
    """Return 1 s, 2 s, 4 s … at most 30 s; `retries_used` counts the earlier retries."""
    return min(_LONGEST_PAUSE, timedelta(seconds=2 ** min(retries_used, 10)))


def may_requeue(node: PlanNode, *, requeues: int) -> bool:
    """Whether a step is queued again after its supervisor was lost.

    (reference: control-plane 15.2)
    """
    return node.may_run_again and requeues < MAX_REQUEUES


def is_irreplaceable(
    owner: str, backend: str, *, online: Iterable[tuple[str, Container[str]]]
) -> bool:
    """Whether only `owner` can continue a step on a backend that is not shared.

    `online`: supervisors by name, with the backends that they serve.
    """
    return not any(name != owner and backend in served for name, served in online)


def reason_of(text: str) -> StepReason:
    """Return the reason that a supervisor reported; an unknown one is `internal_error`."""
    try:
        return StepReason(text)
    except ValueError:
        return StepReason.INTERNAL_ERROR
