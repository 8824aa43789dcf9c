"""How mocks behave badly on purpose: broken answers, delays, limits; and calls that they send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp
from random import Random
from typing import Final, Literal

FaultKind = Literal["reset", "empty", "half", "garbage", "dribble"]
FAULTS: Final = ("reset", "empty", "half", "garbage", "dribble")
MAX_DELAY_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MockFault:
    """How an answer breaks; `dribble` sends its body in `chunks` pieces over `over_ms`."""

    kind: FaultKind
    chunks: int = 0
    over_ms: int = 0

    @property
    def shows_answer(self) -> bool:
        """Return whether a client sees something of the answer."""
        return self.kind in ("half", "dribble")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """How long an answer waits: between two bounds, with `sigma` lognormal around a median."""

    lowest_ms: int = 0
    highest_ms: int = 0
    median_ms: int = 0
    sigma: float = 0.0

    @property
    def is_fixed(self) -> bool:
        return self.lowest_ms == self.highest_ms

    def draw_ms(self, randomness: Random) -> int:
        """Return the delay of one answer."""
        if self.is_fixed:
            return self.lowest_ms
        if not self.sigma:
            return randomness.randint(self.lowest_ms, self.highest_ms)
        drawn = self.median_ms * exp(min(self.sigma * randomness.gauss(0, 1), 20))
        return min(round(drawn), self.highest_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimit:
    """At most `calls` within `per_ms`, counted from the first of them."""

    calls: int
    per_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """A call that is sent after an answer; `url`, `headers` and `body` are templates."""

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    delay: Delay = field(default_factory=Delay)
