"""The steps of a run as its events tell them, and the rows that show them on a terminal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from partita_client.command.output import cell_width, paint, printable
from partita_client.command.run_views import STEP_MARKS, UNKNOWN_MARK, shorten

if TYPE_CHECKING:  # dictionaries by another name: a command does without
    from partita_client.documents import RunReport, RunStep

_OVER: Final = ("healthy", "failed", "skipped", "canceled")
# the order in which steps get a row if there are too few, and in which the others are counted
_URGENCY: Final = ("running", "failed", "queued", "canceled", "pending", "skipped", "healthy")
_TELLING: Final = ("failed", "waiting", "image-pull")  # events whose text a row repeats
_MARGIN: Final = 4  # columns that stay free: a typed ^C must not wrap the last row
_SMALLEST: Final = 9  # columns of the names, as in the log lines
_BLANK_FROM: Final = 4  # rows, from which on a blank one stands above the table
Segment = tuple[str, str]  # a text and its style


@dataclass(slots=True, kw_only=True, eq=False)
class WatchedStep:
    """A step; its times are seconds of the server's clock."""

    id: str
    needs: Sequence[str]
    status: str
    attempt: int
    started_s: float | None
    ended_s: float | None
    words: str = ""

    @property
    def is_over(self) -> bool:
        return self.status in _OVER


class WatchedRun:
    """A run that is brought up to date by the records of its events, from the first one on.

    One thread applies records while another one reads the rows: a record changes values of steps
    only, never which steps there are. The time of running steps goes on by this machine's clock,
    from the server's time that the report has.
    """

    def __init__(self, run: RunReport, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._read_at = clock, clock()
        self._title, self._status = run["suiteTitle"], run["status"]
        self._started_s = _seconds_of(run["startedAt"]) or 0.0
        self._server_s = self._started_s + run["durationMs"] / 1000
        self._steps = {step["id"]: _first_state(step) for step in run["steps"]}
        self._last_known, self._last = run["lastEventId"], 0

    @property
    def is_current(self) -> bool:
        """Whether every event of before the report was applied: some are older than it."""
        return self._last >= self._last_known

    def skip_to(self, record_id: int) -> None:
        """Go on after records that can no longer be had."""
        self._last = max(self._last, record_id)

    def apply(self, record: Mapping[str, Any]) -> None:
        """Take what a record says; raise LookupError, TypeError, ValueError for no record."""
        event = record["event"]
        self._status = str(record["executionStatus"])
        if (step := self._steps.get(event["source"])) is not None:
            _apply_event(step, event)
        self._last = int(record["id"])

    def rows(self, columns: int, height: int) -> list[str]:
        """Return the rows for a terminal of this size, in up to half of its height."""
        room = height // 2
        if not self.is_current or room < 1:
            return []
        width = max(1, columns - _MARGIN)
        rows: list[Sequence[Segment]] = [[("", "")]] if room >= _BLANK_FROM else []
        rows.append(self._head())
        rows += self._step_rows(columns, room - len(rows))
        return [paint_row(row, width) for row in rows]

    def _head(self) -> Sequence[Segment]:
        return (f"{self._title} ", "bold"), (f"{self._status}  {_mmss(self._age())}", "")

    def _age(self) -> float:
        return self._now() - self._started_s

    def _now(self) -> float:
        return self._server_s + self._clock() - self._read_at

    def _step_rows(self, columns: int, room: int) -> list[Sequence[Segment]]:
        steps = list(self._steps.values())
        fitting = room if len(steps) <= room else max(0, room - 1)
        urgent = sorted(steps, key=lambda step: _urgency(step.status))
        shown, others = urgent[:fitting], urgent[fitting:]
        longest = max((cell_width(step.id) for step in steps), default=0)
        width = min(longest, max(_SMALLEST, columns // 3))
        rows = [self._step_row(step, width) for step in steps if step in shown]
        if others and room:
            rows.append(((f"   … and {len(others)} more: {_counts(others)}", "dim"),))
        return rows

    def _step_row(self, step: WatchedStep, width: int) -> Sequence[Segment]:
        mark, style = STEP_MARKS.get(step.status, UNKNOWN_MARK)
        name = shorten(step.id, width)
        padding = " " * max(0, width - cell_width(name))
        row = [(f" {mark} ", style), (f"{name}{padding} ", "bold"), (f"{step.status:<9}", style)]
        row.append((f"{self._took(step):>5}", ""))
        if step.attempt > 1:
            row.append((f"  attempt {step.attempt}", "yellow"))
        if waits_for := self._waits_for(step):
            row.append((f"  waits for {', '.join(waits_for)}", "dim"))
        if step.words:
            row.append((f"  {step.words}", "yellow" if step.status == "running" else "dim"))
        return row

    def _took(self, step: WatchedStep) -> str:
        if step.started_s is None:
            return ""
        end = step.ended_s if step.is_over and step.ended_s is not None else self._now()
        return _mmss(end - step.started_s)

    def _waits_for(self, step: WatchedStep) -> list[str]:
        """Return the steps that must end before a pending one begins."""
        if step.status != "pending":
            return []
        known = self._steps
        return [need for need in step.needs if need not in known or not known[need].is_over]


def paint_row(row: Sequence[Segment], columns: int) -> str:
    """Return a row that a terminal has room for; it cannot drive it."""
    texts = [(printable(text).replace("\t", " "), style) for text, style in row]
    if sum(cell_width(text) for text, _ in texts) <= columns:
        return "".join(paint(text, style) for text, style in texts).rstrip()
    left, painted = columns - 1, ""
    for text, style in texts:
        fitting = _clip(text, left)
        painted += paint(fitting, style)
        left -= cell_width(fitting)
        if fitting != text:
            break
    return f"{painted}…"


def _clip(text: str, columns: int) -> str:
    """Return the beginning of a text that so many columns have room for."""
    width = 0
    for number, character in enumerate(text):
        width += cell_width(character)
        if width > columns:
            return text[:number]
    return text


def _first_state(step: RunStep) -> WatchedStep:
    return WatchedStep(
        id=step["id"],
        needs=tuple(dict.fromkeys([*step.get("dependsOn", ()), *step.get("onFailure", ())])),
        status=step["status"],
        attempt=step["attempt"],
        started_s=_seconds_of(step.get("startedAt", "")),
        ended_s=_seconds_of(step.get("finishedAt", "")),
    )


def _apply_event(step: WatchedStep, event: Mapping[str, Any]) -> None:
    attempt, time_s = int(event.get("attempt") or 0), _seconds_of(event["time"])
    name = _event_name(event["id"], event["source"], attempt)
    step.status, step.attempt = str(event["status"]), max(step.attempt, attempt)
    step.words = str(event["text"]) if name in _TELLING else ""
    if name == "claimed":
        step.started_s, step.ended_s = time_s, None
    elif step.status in ("pending", "queued"):
        step.started_s = step.ended_s = None
    elif step.is_over:
        step.ended_s = time_s


def _event_name(event_id: str, source: str, attempt: int) -> str:
    """Return what happened, such as `running` of `api-running-2.3`."""
    name = event_id.removeprefix(f"{source}-").partition(".")[0]
    return name.removesuffix(f"-{attempt}") if attempt > 1 else name


def _urgency(status: str) -> int:
    return _URGENCY.index(status) if status in _URGENCY else len(_URGENCY)


def _counts(steps: Sequence[WatchedStep]) -> str:
    counted = Counter(step.status for step in steps)
    return ", ".join(f"{counted[each]} {each}" for each in sorted(counted, key=_urgency))


def _seconds_of(text: str) -> float | None:
    """Return an RFC 3339 time as seconds, None for an empty text; raise ValueError."""
    return datetime.fromisoformat(text).timestamp() if text else None


def _mmss(seconds: float) -> str:
    whole = max(0, int(seconds))
    return f"{whole // 60:02d}:{whole % 60:02d}"
