"""The timeline of a run as its page draws it: a bar per step, the axis, and the same in words.

Pure. Places on the axis are percentages of the time of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from apps.console.domain import display
from apps.executions.api import (
    SEGMENT_KINDS,
    CriticalLink,
    SegmentBody,
    StepTimeline,
    TimelineBody,
)

KIND_WORDS: Final = {
    "queued": "queued",
    "start": "starting",
    "pull": "pulling the image",
    "ready": "getting ready",
    "running": "running",
}
_TICKS: Final = 6  # at most
_UNITS_MS: Final = (1, 1_000, 60_000, 3_600_000)
_PARTS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_PARTS_OF_SIXTY: Final = (1, 2, 5, 10, 15, 30)
_CURSOR_STEPS: Final = 500
_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A segment on the axis; `text` is for who points at it."""

    kind: str
    start: str
    width: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """A step; `words` says what its bars show, `link` is its part of the critical path."""

    step: StepTimeline
    display: display.StatusDisplay
    bars: tuple[Bar, ...]
    link: tuple[str, str] | None
    words: str
    took: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisTick:
    place: str
    text: str


def timeline_context(body: TimelineBody) -> dict[str, object]:
    """Return the context of the fragment, the steps that began first on top."""
    links = {link["stepId"]: link for link in body["criticalPath"]}
    duration_ms = max(1, body["durationMs"])
    steps = sorted(body["steps"], key=_first_start)
    return {
        "timeline": body,
        "rows": [_row(step, links, duration_ms) for step in steps],
        "ticks": axis_ticks(duration_ms),
        "kinds": [(kind, KIND_WORDS[kind]) for kind in SEGMENT_KINDS],
        "cursor_step_ms": max(1, duration_ms // _CURSOR_STEPS),
    }


def axis_ticks(duration_ms: int) -> list[AxisTick]:
    """Return at most seven ticks at round times, the first at 0."""
    every_ms = next((step for step in _round_steps() if duration_ms / step <= _TICKS), duration_ms)
    return [
        AxisTick(place=_percent(at_ms, duration_ms), text=_tick_text(at_ms))
        for at_ms in range(0, duration_ms + 1, every_ms)
    ]


def _round_steps() -> Iterator[int]:
    for unit_ms in _UNITS_MS:
        parts = _PARTS_OF_SIXTY if unit_ms in (1_000, 60_000) else _PARTS
        yield from (part * unit_ms for part in parts)


def _tick_text(at_ms: int) -> str:
    """Return `0`, `250 ms`, `5 s`, `1:30` or `2:00:00`."""
    if at_ms < _MINUTE_MS:
        return display.duration(at_ms).replace(".0 s", " s") if at_ms else "0"
    minutes, seconds = divmod(at_ms // 1000, 60)
    hours, rest = divmod(minutes, 60)
    return f"{hours}:{rest:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def _row(step: StepTimeline, links: Mapping[str, CriticalLink], duration_ms: int) -> TimelineRow:
    link = links.get(step["id"])
    attempts = step["attempts"]
    total_ms = sum(attempt["lengthMs"] for attempt in attempts)
    return TimelineRow(
        step=step,
        display=display.step_display(step["status"]),
        bars=tuple(_bars(step, duration_ms)),
        link=link
        and (_percent(link["startMs"], duration_ms), _percent(link["lengthMs"], duration_ms)),
        words=_words(step),
        took=display.duration(total_ms) if attempts else "",
    )


def _bars(step: StepTimeline, duration_ms: int) -> Iterator[Bar]:
    several = len(step["attempts"]) > 1
    for attempt in step["attempts"]:
        of_attempt = f"attempt {attempt['number']}, " if several else ""
        instant: SegmentBody = {"kind": "running", "startMs": attempt["startMs"], "lengthMs": 0}
        for part in attempt["segments"] or [instant]:
            yield Bar(
                kind=part["kind"],
                start=_percent(part["startMs"], duration_ms),
                width=_percent(part["lengthMs"], duration_ms),
                text=f"{of_attempt}{KIND_WORDS[part['kind']]}: {_span(part)}",
            )


def _words(step: StepTimeline) -> str:
    """Return what the bars show, for who does not see them."""
    if not step["attempts"]:
        return f"{step['status']}, not queued"
    several = len(step["attempts"]) > 1
    texts = []
    for attempt in step["attempts"]:
        parts = ", ".join(
            f"{KIND_WORDS[part['kind']]} {_span(part)}" for part in attempt["segments"]
        )
        head = f"attempt {attempt['number']} " if several else ""
        texts.append(f"{head}{parts or 'done at once'}; {attempt.get('outcome', 'goes on')}")
    return "; ".join(texts)


def _span(part: SegmentBody) -> str:
    so_far = " so far" if part.get("open") else ""
    start = display.duration(part["startMs"])
    return f"{display.duration(part['lengthMs'])}{so_far} from {start}"


def _first_start(step: StepTimeline) -> tuple[bool, int]:
    attempts = step["attempts"]
    return not attempts, attempts[0]["startMs"] if attempts else 0


def _percent(part_ms: int, duration_ms: int) -> str:
    return f"{100 * part_ms / duration_ms:.4f}".rstrip("0").rstrip(".") + "%"
