"""The timeline of a run: what each attempt of each step did, from when to when.

Pure. Times are milliseconds since the acceptance of the run (reference: control-plane 11.10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypedDict

SegmentKind = Literal["queued", "start", "pull", "ready", "running"]
SEGMENT_KINDS: Final[tuple[SegmentKind, ...]] = ("queued", "start", "pull", "ready", "running")
_AFTER: Final[dict[str, SegmentKind]] = {"claimed": "start", "image-pull": "pull"}
# the outcome of an attempt by the event that ends it
_ENDS: Final = {
    "failed": "failed",
    "canceled": "canceled",
    "skipped": "skipped",
    "retry": "failed",
    "requeued": "requeued",
    "reset": "reset",
}
_QUEUES_AGAIN: Final = ("retry", "requeued")  # with the number of the attempt that begins


class _OpenSegment(TypedDict, total=False):
    open: bool  # while it goes on


class SegmentBody(_OpenSegment):
    """A part of an attempt, as on the wire."""

    kind: SegmentKind
    startMs: int
    lengthMs: int


class _AttemptEnd(TypedDict, total=False):
    """`outcome` is absent while it goes on; `healthyMs` is when it satisfied its dependents."""

    outcome: str
    healthyMs: int


class AttemptTimes(_AttemptEnd):
    """An attempt of a step, as on the wire."""

    number: int
    startMs: int
    lengthMs: int
    segments: list[SegmentBody]


class StepTimeline(TypedDict):
    """A step with its attempts, as on the wire; a step that never was queued has none."""

    id: str
    name: str
    kind: str
    status: str
    attempts: list[AttemptTimes]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMark:
    """An event of a step; `name` is that of its id, such as `image-pull`."""

    name: str
    at_ms: int
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """A step as stored; `ended_ms` is the end of its last attempt, if it has ended."""

    id: str
    name: str
    kind: str
    status: str
    ended_ms: int | None = None
    marks: tuple[StepMark, ...] = ()


def step_timelines(
    steps: Sequence[StepFacts], *, duration_ms: int, is_over: bool
) -> list[StepTimeline]:
    """Return the timeline of every step; `duration_ms` is how long the run took or takes yet."""
    return [_timeline(step, duration_ms, is_over=is_over) for step in steps]


def _timeline(step: StepFacts, duration_ms: int, *, is_over: bool) -> StepTimeline:
    course = _Course(kind=step.kind, duration_ms=duration_ms)
    for mark in step.marks:
        course.take(mark)
    if course.attempt is not None and (is_over or step.ended_ms is not None):
        # a service that is stopped has no event of its own, it stays healthy
        was_healthy = "healthyMs" in course.attempt
        outcome = "healthy" if was_healthy and step.status == "healthy" else "canceled"
        course.end(duration_ms if step.ended_ms is None else step.ended_ms, outcome)
    course.leave_open()
    return {
        "id": step.id,
        "name": step.name,
        "kind": step.kind,
        "status": step.status,
        "attempts": course.attempts,
    }


@dataclass(slots=True, kw_only=True)
class _Course:
    """The attempts of one step, built from its events in order; no time lies before another."""

    kind: str
    duration_ms: int
    attempts: list[AttemptTimes] = field(default_factory=list)
    attempt: AttemptTimes | None = None  # the last one, until it ends
    doing: SegmentKind = "queued"
    since_ms: int = 0
    now_ms: int = 0

    def take(self, mark: StepMark) -> None:
        if mark.name == "queued" or (mark.name == "claimed" and self.attempt is None):
            self.begin(mark)
        if mark.name in _ENDS:
            self.end(mark.at_ms, _ENDS[mark.name])
            if mark.name in _QUEUES_AGAIN:
                self.begin(mark)
        elif mark.name == "healthy":
            self._become_healthy(mark.at_ms)
        elif kind := self._kind_after(mark.name):
            self._turn_to(kind, mark.at_ms)

    def begin(self, mark: StepMark) -> None:
        self.end(mark.at_ms, "requeued")  # unless it has ended
        self._advance(mark.at_ms)
        self.attempt = {
            "number": mark.attempt,
            "startMs": self.now_ms,
            "lengthMs": 0,
            "segments": [],
        }
        self.attempts.append(self.attempt)
        self.doing, self.since_ms = "queued", self.now_ms

    def end(self, at_ms: int, outcome: str) -> None:
        if self.attempt is not None:
            self._close_segment(at_ms)
            self.attempt["lengthMs"] = self.now_ms - self.attempt["startMs"]
            self.attempt["outcome"] = outcome
            self.attempt = None

    def leave_open(self) -> None:
        """Add the segment that still goes on, up to now, and mark it as open."""
        if self.attempt is not None:
            self._advance(self.duration_ms)
            start_ms, length_ms = self.since_ms, self.now_ms - self.since_ms
            segments = self.attempt["segments"]
            segments.append(
                {"kind": self.doing, "startMs": start_ms, "lengthMs": length_ms, "open": True}
            )
            self.attempt["lengthMs"] = self.now_ms - self.attempt["startMs"]

    def _kind_after(self, event: str) -> SegmentKind | None:
        if event == "claimed" and self.kind in ("mock", "log"):  # nothing is started for them
            return "ready" if self.kind == "mock" else "running"
        if event == "running":
            return "ready" if self.kind == "service" else "running"
        return _AFTER.get(event)

    def _become_healthy(self, at_ms: int) -> None:
        attempt = self.attempt
        if attempt is None:
            return
        if self.kind == "service":
            self._turn_to("running", at_ms)
        else:
            self.end(at_ms, "healthy")
        attempt["healthyMs"] = self.now_ms

    def _turn_to(self, kind: SegmentKind, at_ms: int) -> None:
        is_later = SEGMENT_KINDS.index(kind) > SEGMENT_KINDS.index(self.doing)
        if self.attempt is not None and is_later:  # an adopted unit reports what it did before
            self._close_segment(at_ms)
            self.doing = kind

    def _close_segment(self, at_ms: int) -> None:
        self._advance(at_ms)
        length_ms = self.now_ms - self.since_ms
        if self.attempt is not None and length_ms:
            segments = self.attempt["segments"]
            segments.append({"kind": self.doing, "startMs": self.since_ms, "lengthMs": length_ms})
        self.since_ms = self.now_ms

    def _advance(self, at_ms: int) -> None:
        self.now_ms = min(max(self.now_ms, at_ms), self.duration_ms)
