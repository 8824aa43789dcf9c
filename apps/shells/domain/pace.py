"""How soon a reader of a session's topic looks again."""

from __future__ import annotations

from typing import Final

BUSY_S: Final = 0.05
QUIET_S: Final = 0.25
CALM_AFTER_S: Final = 10.0


class Pace:
    """Soon after activity the pauses are short, later longer; a nudge may end any of them."""

    def __init__(self, now: float = 0) -> None:
        self.active_at = now

    def note_activity(self, now: float) -> None:
        self.active_at = now

    def pause_s(self, now: float) -> float:
        return BUSY_S if now - self.active_at < CALM_AFTER_S else QUIET_S


class Silence:
    """How long a value has not changed, in the time in which it could be read.

    A pause of the reader or of the store counts `step_s` at most, and clocks of other hosts do not
    count at all.
    """

    def __init__(self, now: float, *, step_s: float = 5.0) -> None:
        self._step_s = step_s
        self._value: object = None
        self._read_at = now
        self.seconds = 0.0

    def read(self, value: object, now: float) -> float:
        """Take in the value as it is now; return the seconds without a change."""
        passed = min(now - self._read_at, self._step_s)
        self.seconds = self.seconds + passed if value == self._value else 0.0
        self._value, self._read_at = value, now
        return self.seconds
