"""The critical path of a run: the steps that determined when it ended, and its longest wait.

Pure. Times are milliseconds since the acceptance of the run (reference: control-plane 11.10).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

from apps.executions.domain.timeline import AttemptTimes, SegmentBody, StepTimeline
from kernel.durations import rounded_duration

_UNNOTICED_MS: Final = 100


class CriticalLink(TypedDict):
    """A step of the critical path, as on the wire: from when it was queued until it was decided.

    `waitMs` is the time between the step before it (or the admission of the run) and its start.
    """

    stepId: str
    startMs: int
    lengthMs: int
    waitMs: int


class _Admission(TypedDict, total=False):
    bootedMs: int  # absent in the queue


class TimelineBody(_Admission):
    """The timeline of a run, as on the wire."""

    id: str
    status: str
    startedAt: str
    durationMs: int
    isOver: bool
    sentence: str
    criticalPath: list[CriticalLink]
    steps: list[StepTimeline]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpan:
    """How long the run took or takes yet; `booted_ms` is None before its admission."""

    duration_ms: int
    booted_ms: int | None
    is_over: bool


def critical_path(
    steps: Sequence[StepTimeline], needs: Mapping[str, Sequence[str]], *, booted_ms: int = 0
) -> list[CriticalLink]:
    """Return the chain of steps that ends with the step that was decided last, first step first.

    It goes back from each step to that one of its dependencies (`needs`, by id) which was satisfied
    last. The parts do not overlap. Empty if no step was queued.
    """
    by_id = {step["id"]: step for step in steps}
    begun = [step for step in steps if step["attempts"] and step["status"] != "skipped"]
    if not begun:
        return []
    step = max(begun, key=_decision_order)
    end_ms, number = _decided_ms(step), len(step["attempts"]) - 1
    links: list[CriticalLink] = []
    while True:
        start_ms = _start_ms(step, number)
        links.append(
            {"stepId": step["id"], "startMs": start_ms, "lengthMs": end_ms - start_ms, "waitMs": 0}
        )
        satisfied = [
            (*found, by_id[need])
            for need in needs.get(step["id"], ())
            if need in by_id and (found := _last_satisfaction(by_id[need], start_ms))
        ]
        if not satisfied:
            links[-1]["waitMs"] = max(0, start_ms - booted_ms)
            return links[::-1]
        end_ms, number, step = max(satisfied, key=lambda found: found[:2])
        links[-1]["waitMs"] = start_ms - end_ms


def waiting_sentence(
    steps: Sequence[StepTimeline], links: Sequence[CriticalLink], span: RunSpan
) -> str:
    """Return what the run waited for most, and which step took most of it."""
    if not links:
        return _sentence_without_steps(span)
    by_id = {step["id"]: step for step in steps}
    waits = [(link["waitMs"], f"for a free slot for {link['stepId']}") for link in links]
    waits.append((span.booted_ms or 0, "in the queue, before the run was admitted"))
    runs = []
    for link in links:
        parts = list(_parts(by_id[link["stepId"]], link))
        step_id = link["stepId"]
        waits += [
            (part["lengthMs"], _wait_words(step_id, number, part))
            for number, part in parts
            if part["kind"] != "running"
        ]
        ran_ms = sum(part["lengthMs"] for _, part in parts if part["kind"] == "running")
        runs.append((ran_ms, step_id))
    longest = max(waits, key=lambda wait: wait[0])
    return f"{_longest_wait(*longest, span)} {_largest_share(*max(runs), span)}".strip()


def _sentence_without_steps(span: RunSpan) -> str:
    took = rounded_duration(span.duration_ms)
    if span.booted_ms is None and not span.is_over:
        return f"The run has been in the queue for {took}."
    if span.booted_ms is None:
        return f"The run ended after {took} in the queue; no step started."
    return "No step started." if span.is_over else "No step has started yet."


def _longest_wait(wait_ms: int, words: str, span: RunSpan) -> str:
    so_far = "" if span.is_over else " so far"
    if wait_ms < _UNNOTICED_MS:
        return f"The run hardly had to wait{so_far}."
    return f"The longest wait{so_far} was {rounded_duration(wait_ms)} {words}."


def _largest_share(ran_ms: int, step_id: str, span: RunSpan) -> str:
    if ran_ms < _UNNOTICED_MS:
        return ""
    share, took = round(100 * ran_ms / span.duration_ms), rounded_duration(ran_ms)
    if span.is_over:
        return f"{step_id} ran for {took}, {share}% of the run."
    return f"{step_id} has run for {took}, {share}% of the run so far."


def _wait_words(step_id: str, attempt: int, part: SegmentBody) -> str:
    if part["kind"] == "queued" and attempt > 1:
        return f"before attempt {attempt} of {step_id}"
    return {
        "queued": f"for a runner to claim {step_id}",
        "start": f"for {step_id} to start",
        "pull": f"to pull the image of {step_id}",
        "ready": f"for {step_id} to become ready",
    }[part["kind"]]


def _parts(step: StepTimeline, link: CriticalLink) -> Iterator[tuple[int, SegmentBody]]:
    """Yield the segments within a link, with the number of their attempt."""
    end_ms = link["startMs"] + link["lengthMs"]
    for attempt in step["attempts"]:
        for part in attempt["segments"]:
            if link["startMs"] <= part["startMs"] and part["startMs"] + part["lengthMs"] <= end_ms:
                yield attempt["number"], part


def _decision_order(step: StepTimeline) -> tuple[int, int]:
    """Return a key by which the step that is decided last comes last; of several, the longest."""
    return _decided_ms(step), -step["attempts"][-1]["startMs"]


def _decided_ms(step: StepTimeline) -> int:
    """Return when the last attempt was decided: a service when it was ready, unless it failed."""
    last = step["attempts"][-1]
    if last.get("outcome") == "failed":
        return _end_ms(last)
    return last.get("healthyMs", _end_ms(last))


def _last_satisfaction(step: StepTimeline, before_ms: int) -> tuple[int, int] | None:
    """Return when dependents were last satisfied, at `before_ms` or earlier, by which attempt.

    A step that failed for good satisfies those that go on after a failure, or that it triggers.
    """
    last = len(step["attempts"]) - 1
    ends = [
        (attempt.get("healthyMs", _end_ms(attempt)), number)
        for number, attempt in enumerate(step["attempts"])
        if "healthyMs" in attempt or (number == last and attempt.get("outcome") == "failed")
    ]
    return max((end for end in ends if end[0] <= before_ms), default=None)


def _start_ms(step: StepTimeline, number: int) -> int:
    """Return when an attempt was queued, or the first of the attempts that it is a retry of.

    An attempt after a healthy one is not its retry: something else had it start again.
    """
    start_ms = step["attempts"][number]["startMs"]
    for attempt in reversed(step["attempts"][:number]):
        if attempt.get("outcome") not in ("failed", "requeued") or "healthyMs" in attempt:
            break
        start_ms = attempt["startMs"]
    return start_ms


def _end_ms(attempt: AttemptTimes) -> int:
    return attempt["startMs"] + attempt["lengthMs"]
