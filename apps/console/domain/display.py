"""What pages display: statuses, durations and sizes, and the lines of a file.

A status has a word, an icon and marks, never a color alone. The pages pass the constants to
`static/console/js/status_display.js`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from apps.console.domain.highlighting import Span, highlighted
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

# CSI, OSC (to BEL or ST), and other two-character sequences (ECMA-48)
_ESCAPES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
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


def run_display(status: str, *, failing: bool = False, begun: bool = False) -> StatusDisplay:
    """Return the display of a run; the label of one that will fail says so.

    A run boots until its first step is healthy (`begun`); then it runs. The API says Booting.
    """
    label = "Running" if begun and status == "Booting" else status
    if failing and status not in FINAL_EXECUTION:
        return StatusDisplay(key="failing", label=f"{label}, failing")
    return StatusDisplay(key=label.lower(), label=label)


def step_display(status: str) -> StatusDisplay:
    return StatusDisplay(key=status, label=status.capitalize())


def reason_text(reason: str) -> str:
    """Return the text for a reason code; an unknown code is shown as it is."""
    return _REASONS.get(reason, reason.replace("_", " "))


def cause_links(causes: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return (step, why) of a cause chain, nearest first: `("api", "exited … (exit code 3)")`."""
    return [
        (
            cause["stepId"],
            reason_text(cause["reason"])
            + (f" (exit code {cause['exitCode']})" if "exitCode" in cause else ""),
        )
        for cause in causes
    ]


def plain_text(text: str) -> str:
    """Return a line without the escape sequences of terminals and other control characters."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


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


def duration(duration_ms: int | None) -> str:
    """Return `850 ms`, `12.4 s`, `3 m 05 s` or `2 h 10 m`; empty for None."""
    if duration_ms is None:
        return ""
    if duration_ms < _SECOND:
        return f"{duration_ms} ms"
    if duration_ms < _MINUTE:
        return f"{duration_ms / _SECOND:.1f} s"
    if duration_ms < _HOUR:
        return f"{duration_ms // _MINUTE} m {duration_ms % _MINUTE // _SECOND:02d} s"
    return f"{duration_ms // _HOUR} h {duration_ms % _HOUR // _MINUTE:02d} m"


def ago(then: str, now: datetime) -> str:
    """Return the age of an RFC 3339 time: `just now`, `4 min ago`, `3 h ago`, `2 d ago`."""
    past_ms = (now - datetime.fromisoformat(then)).total_seconds() * _SECOND
    for unit_ms, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if past_ms >= unit_ms:
            return f"{int(past_ms // unit_ms)} {name} ago"
    return "just now"


def size_text(count: int) -> str:
    """Return bytes as `512 B`, `3.4 KiB` or `1.2 MiB`."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:  # noqa: PLR2004
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def usage_text(figures: Mapping[str, float]) -> str:
    """Return the known parts of `12 % CPU · 34.0 MiB (peak 40.0 MiB)`."""
    parts = []
    if "cpuPercent" in figures:
        parts.append(f"{figures['cpuPercent']:.0f} % CPU")
    if "memoryBytes" in figures:
        parts.append(size_text(int(figures["memoryBytes"])))
    text = " · ".join(parts)
    if "memoryPeakBytes" in figures:
        peak = f"peak {size_text(int(figures['memoryPeakBytes']))}"
        text = f"{text} ({peak})" if text else peak
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """One line. On the line of the error, `at` is the character with the error.

    Other lines may have `spans`: texts with their CSS classes.
    """

    number: int
    before: str
    spans: tuple[Span, ...] = ()
    at: str = ""
    after: str = ""
    is_error: bool = False


def numbered_lines(
    text: str, error: Mapping[str, Any] | None = None, language: str = ""
) -> list[SourceLine]:
    """Return the lines of a file; `error` is a `topologyError` of this file, or None."""
    line = int((error or {}).get("line", 0))
    column = int((error or {}).get("column", 0))
    contents = text.split("\n")
    spans = highlighted(text, language) or ()
    if len(spans) != len(contents):  # a lone carriage return is a line to the highlighter
        spans = ((),) * len(contents)
    return [
        _with_error(number, content, column)
        if number == line
        else SourceLine(number=number, before=content, spans=coloured)
        for number, (content, coloured) in enumerate(zip(contents, spans, strict=True), start=1)
    ]


def _with_error(number: int, content: str, column: int) -> SourceLine:
    if not column:
        return SourceLine(number=number, before=content, is_error=True)
    index = min(column - 1, len(content))
    return SourceLine(
        number=number,
        before=content[:index],
        at=content[index : index + 1] or " ",  # the error is at the end of the line
        after=content[index + 1 :],
        is_error=True,
    )


def error_in(file: str, error: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the topology error if it is in that file."""
    return error if error and error.get("file", "suite.star") == file else None
