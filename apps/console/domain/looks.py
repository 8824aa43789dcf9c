"""Statuses as a reader meets them: a word and a drawn sign, never a colour alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

RUN_OVER: Final = frozenset({"Healthy", "Failed", "Canceled"})
STEP_OVER: Final = frozenset({"healthy", "failed", "skipped", "canceled"})
STEP_ORDER: Final = ("failed", "running", "healthy", "queued", "pending", "skipped", "canceled")
NOT_ISOLATED: Final = "(not isolated)"

_REASONS: Final[dict[str, str]] = {
    "dependency_failed": "a step it needs failed",
    "dependency_skipped": "a step it needs was skipped",
    "run_failed": "the run had failed elsewhere",
    "trigger_not_failed": "nothing failed that it watches",
    "not_selected": "not part of this rerun",
    "exit_nonzero": "ended with an error code",
    "exit_unexpected": "ended with another code than expected",
    "timeout": "took longer than its timeout",
    "not_ready": "its readiness probe never passed",
    "service_exited": "the service ended",
    "oom_killed": "went over its memory limit",
    "image_missing": "its image could not be had",
    "expect_logs_missing": "an expected log text never came",
    "fail_on_logs_matched": "a forbidden log text came",
    "test_failures": "its report counts failed tests",
    "artifact_missing": "a required artifact is missing",
    "threshold_failed": "a threshold was missed",
    "target_unreachable": "the target did not answer",
    "mock_surface_missing": "the mock surface does not exist",
    "mock_not_ready": "the mock surface did not answer",
    "runtime_unavailable": "the container runtime is away",
    "agent_unavailable": "no worker took it",
    "agent_lost": "its worker was lost",
    "canceled": "canceled",
    "internal_error": "something broke inside the control plane",
    "secret_unresolved": "a secret could not be resolved",
    "backend_unavailable": "the backend is gone or disabled",
    "run_timeout": "the run took longer than allowed",
    "dependency_replaced": "a service started anew after steps had run against it",
    "step_failed": "a step failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """`key` names the sign in the sprite and the CSS state; `label` is what people read."""

    key: str
    label: str


def run_look(status: str, *, failing: bool = False) -> Look:
    """The look of a run; one that goes on after its first hard failure says so."""
    if failing and status not in RUN_OVER:
        return Look(key="failing", label=f"{status}, failing")
    return Look(key=status.lower(), label=status)


def step_look(status: str) -> Look:
    return Look(key=status, label=status.capitalize())


def reason_text(reason: str) -> str:
    """Return a reason code in words; an unknown code is shown as it is."""
    return _REASONS.get(reason, reason.replace("_", " "))


def cause_text(causes: list[dict[str, Any]]) -> str:
    """A cause chain, nearest first: `api exit_nonzero (exit 3) ← db oom_killed`."""
    parts = [
        f"{cause['stepId']} {cause['reason']}"
        + (f" (exit {cause['exitCode']})" if "exitCode" in cause else "")
        for cause in causes
    ]
    return " ← ".join(parts)


def is_isolated(backend_label: str) -> bool:
    """Whether steps run in containers; the label of the process runtime says that they do not."""
    return NOT_ISOLATED not in backend_label


def counts(steps: list[dict[str, Any]]) -> dict[str, int]:
    """How many steps have each status, in reading order, without the zeros."""
    found = [step["status"] for step in steps]
    return {status: found.count(status) for status in STEP_ORDER if status in found}


def overview_counts(item: Mapping[str, Any]) -> dict[str, int]:
    """The same for an item of the engine overview, from its seven counts."""
    found = {status: int(item.get(f"{status}Steps", 0)) for status in STEP_ORDER}
    return {status: count for status, count in found.items() if count}
