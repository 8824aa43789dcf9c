"""What the probe of a service that is not ready answers, for the live record of its step.

(reference: control-plane 15.2)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kernel.agent_protocol import PROBE_ANSWER_CHARACTERS, ProbeProgress

CHANGED_S: Final = 1.0  # at least between two reports of an attempt, and before the first one
UNCHANGED_S: Final = 5.0  # between two reports of the same answer


@dataclass(frozen=True, slots=True)
class _Answer:
    """The last answer; immutable, so that another thread can read it."""

    text: str
    tries: int


class ProbeWatch:
    """Collects the answers of one attempt's probe and says when they are worth a report.

    A service that is ready within a second is never reported. `latest` may be read on any thread.
    """

    def __init__(self, *, report_soon: Callable[[], None], mask: Callable[[str], str]) -> None:
        self._report_soon = report_soon
        self._mask = mask
        self._answer: _Answer | None = None
        self._deadline = 0.0
        self._reported_at = 0.0
        self._reported_text = ""
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, limit_s: float) -> None:
        """Start the time in which the service must become ready."""
        self._reported_at = time.monotonic()
        self._deadline = self._reported_at + limit_s

    def note(self, answer: str, *, is_try: bool = True) -> None:
        """Store an answer of the probe; without `is_try`, what is waited for instead of a probe."""
        tries = (self._answer.tries if self._answer else 0) + is_try
        text = "".join(one if one.isprintable() else " " for one in self._mask(answer))
        self._answer = _Answer(text[:PROBE_ANSWER_CHARACTERS], tries)
        is_new = self._answer.text != self._reported_text
        wait_s = self._reported_at + (CHANGED_S if is_new else UNCHANGED_S) - time.monotonic()
        if wait_s <= 0:
            self._report()
        elif is_new and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._report)

    def end(self) -> None:
        """Forget the answers: the service is ready or has ended."""
        self._answer = None
        self._cancel_timer()

    @property
    def latest(self) -> ProbeProgress | None:
        answer = self._answer
        if answer is None:
            return None
        left_s = max(0.0, self._deadline - time.monotonic())
        return ProbeProgress(
            answer=answer.text, tries=answer.tries, time_left_ms=round(left_s * 1000)
        )

    def _report(self) -> None:
        self._cancel_timer()
        if self._answer:
            self._reported_at, self._reported_text = time.monotonic(), self._answer.text
            self._report_soon()

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = None
