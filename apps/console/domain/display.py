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

from apps.console.domain.highlights import Span, highlight
from apps.executions.api import (
    FINAL_EXECUTION,
    AttemptBody,
    CauseLink,
    attempt_numbers,
    failure_phrase,
    gap_words,
    has_reruns,
    link_phrase,
)
from apps.platform_settings.api import NOT_ISOLATED

STEP_ORDER: Final = ("failed", "running", "healthy", "queued", "pending", "skipped", "canceled")
# of a group of steps, the status that a reader must see first
GROUP_ORDER: Final = ("failed", "running", "queued", "pending", "canceled", "skipped", "healthy")
MAX_TICKS: Final = 48
TICKS_WIDTH: Final = 192.0
FOR_SCRIPTS: Final = {
    "runOver": sorted(FINAL_EXECUTION),
    "stepOrder": STEP_ORDER,
    "groupOrder": GROUP_ORDER,
    "maxTicks": MAX_TICKS,
    "ticksWidth": TICKS_WIDTH,
}

_DIGITS: Final = re.compile(r"(\d{1,18})")
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000


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


def step_reason(step: Mapping[str, Any]) -> str:
    """Return why a step ended as it did, in words that follow its status; "" without a reason."""
    if "reason" not in step:
        return ""
    return failure_phrase(step["reason"], step.get("detail", ""), step.get("exitCode")).alone


def step_detail(step: Mapping[str, Any]) -> str:
    """Return the detail of a step as reported, if its reason does not say all of it; else ""."""
    detail: str = step.get("detail", "")
    phrase = failure_phrase(step.get("reason", ""), detail, step.get("exitCode"))
    return detail if phrase.words or len(detail) > len(phrase.text) else ""


def run_reason(run: Mapping[str, Any]) -> str:
    """Return the sentence of a run for its row; empty while all is well."""
    is_well = run["status"] == "Healthy" or (run["status"] == "Booting" and not run["failing"])
    return "" if is_well else run["sentence"]


def trigger_text(run: Mapping[str, Any]) -> str:
    """Return what launched a run; of a rerun, which attempt it is."""
    return f"attempt {run['attempt']}" if "attempt" in run else run["trigger"]


def attempt_marks(attempts: Sequence[AttemptBody], run_id: str) -> list[dict[str, object]]:
    """Return the attempts of a run with their words, or nothing for a run without reruns."""
    if not has_reruns(attempts):
        return []
    marks: list[dict[str, object]] = []
    for each in attempts:
        numbers = attempt_numbers(each)
        if gap := gap_words(each):
            marks.append({"numbers": numbers, "words": gap})
        else:
            shown = run_display(each["status"])
            words = {"words": shown.label.lower(), "display": shown, "is_own": each["id"] == run_id}
            marks.append({"numbers": numbers, **words, "attempt": each})
    return marks


def cause_links(causes: Sequence[CauseLink]) -> list[tuple[str, str]]:
    """Return (step, what follows its id) of a cause chain, nearest first."""
    return [
        (cause["stepId"], link_phrase(cause).about(cause["stepId"]).removeprefix(cause["stepId"]))
        for cause in causes
    ]


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


def natural_key(text: str) -> list[tuple[int, str]]:
    """Return a key that sorts `test-2` before `test-10`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(text)]


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
    spans = highlight(text, language) or ()
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
