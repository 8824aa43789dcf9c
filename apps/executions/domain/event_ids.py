"""Names of events: unique in a run, the same for the same fact (reference: control-plane 11.2)."""

from __future__ import annotations

from typing import Final

RUN_SOURCE: Final = "execution"
# Events that may come several times in one attempt; all others come once by the state machine.
REPEATABLE: Final = frozenset({"adopted", "image-pull", "artifacts", "reset", "reset-mocks"})


def event_id(source: str, what: str, *, attempt: int = 0, nth: int = 1) -> str:
    """`api-running`, in the second attempt `api-running-2`, repeated there `api-running-2.2`."""
    named = f"{source}-{what}"
    if attempt > 1:
        named += f"-{attempt}"
    return named if nth == 1 else f"{named}.{nth}"
