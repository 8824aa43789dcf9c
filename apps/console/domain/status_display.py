"""Statuses on a page: a word, an icon and marks, never a color alone.

The pages pass the constants to `static/console/js/status_display.js`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apps.executions.api import FINAL_EXECUTION
from apps.platform_settings.api import NOT_ISOLATED

STEP_ORDER: Final = ("failed", "running", "healthy", "queued", "pending", "skipped", "canceled")
MAX_TICKS: Final = 48
TICKS_WIDTH: Final = 192.0
FOR_SCRIPTS: Final = {
    "runOver": sorted(FINAL_EXECUTION),
    "stepOrder": STEP_ORDER,
    "maxTicks": MAX_TICKS,
    "ticksWidth": TICKS_WIDTH,
}

_REASONS: Final[dict[str, str]] = {
    "dependency_failed": "a step that it needs failed",
    "dependency_skipped": "a step that it needs was skipped",
    "run_failed": "another step had failed the run",
    "trigger_not_failed": "no step that triggers it failed",
    "not_selected": "not part of this rerun",
    "exit_nonzero": "exited with an error code",
    "exit_unexpected": "exited with an unexpected code",
    "timeout": "took longer than its timeout",
    "not_ready": "its readiness probe never succeeded",
    "service_exited": "the service exited",
    "oom_killed": "exceeded its memory limit",
    "image_missing": "its image could not be pulled",
    "expect_logs_missing": "an expected text is missing in its log",
    "fail_on_logs_matched": "a forbidden text is in its log",
    "test_failures": "its report contains failed tests",
    "artifact_missing": "a required artifact is missing",
    "threshold_failed": "a threshold was not met",
    "target_unreachable": "the target did not answer",
    "mock_surface_missing": "the mock surface does not exist",
    "mock_not_ready": "the mock surface did not answer",
    "runtime_unavailable": "the container runtime is unavailable",
    "agent_unavailable": "no worker claimed it",
    "agent_lost": "its worker was lost",
    "canceled": "canceled",
    "internal_error": "the control plane had an internal error",
    "secret_unresolved": "a secret could not be resolved",
    "backend_unavailable": "the backend was removed or disabled",
    "run_timeout": "the run took longer than allowed",
    "dependency_replaced": "a service started again after steps had run against it",
    "step_failed": "a step failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDisplay:
    """`key` is the name of the icon and the CSS state; `label` is the text."""

    key: str
    label: str


def run_display(status: str, *, failing: bool = False) -> StatusDisplay:
    """Return the display of a run; the label of one that will fail says so."""
    if failing and status not in FINAL_EXECUTION:
        return StatusDisplay(key="failing", label=f"{status}, failing")
    return StatusDisplay(key=status.lower(), label=status)


def step_display(status: str) -> StatusDisplay:
    return StatusDisplay(key=status, label=status.capitalize())


def reason_text(reason: str) -> str:
    """Return the text for a reason code; an unknown code is shown as it is."""
    return _REASONS.get(reason, reason.replace("_", " "))


def cause_text(causes: Sequence[Mapping[str, Any]]) -> str:
    """Return a cause chain, nearest first: `api exit_nonzero (exit 3) ← db oom_killed`."""
    parts = [
        f"{cause['stepId']} {cause['reason']}"
        + (f" (exit {cause['exitCode']})" if "exitCode" in cause else "")
        for cause in causes
    ]
    return " ← ".join(parts)


def is_isolated(backend_label: str) -> bool:
    """Return whether the steps of the backend run in containers, according to its label."""
    return NOT_ISOLATED not in backend_label


def counts(steps: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of steps by status, in display order, without zeros."""
    found = [step["status"] for step in steps]
    return {status: found.count(status) for status in STEP_ORDER if status in found}


def overview_counts(item: Mapping[str, Any]) -> dict[str, int]:
    """Return the same for an item of the engine overview, from its seven counts."""
    found = {status: int(item.get(f"{status}Steps", 0)) for status in STEP_ORDER}
    return {status: count for status, count in found.items() if count}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One mark of a status, with its position and width within `TICKS_WIDTH`."""

    status: str
    x: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """The marks of a run and their total width."""

    ticks: tuple[Tick, ...]
    width: float


def strip(counts: Mapping[str, int]) -> Strip:
    marks = tuple(ticks(counts))
    return Strip(ticks=marks, width=marks[-1].x + marks[-1].width if marks else 0)


def ticks(counts: Mapping[str, int]) -> list[Tick]:
    """Return a mark for each step; above `MAX_TICKS` steps, a bar for each status."""
    total = sum(counts.values())
    if total == 0:
        return []
    if total > MAX_TICKS:
        return _bars(counts, total)
    pitch = min(TICKS_WIDTH / total, 8.0)
    statuses = [status for status, count in counts.items() for _ in range(count)]
    return [
        Tick(status=status, x=round(index * pitch, 2), width=round(pitch - 2, 2))
        for index, status in enumerate(statuses)
    ]


def _bars(counts: Mapping[str, int], total: int) -> list[Tick]:
    bars, x = [], 0.0
    for status, count in counts.items():
        width = TICKS_WIDTH * count / total
        bars.append(Tick(status=status, x=round(x, 2), width=round(max(width - 1, 0.5), 2)))
        x += width
    return bars
