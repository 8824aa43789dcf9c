"""Rate limits of operations and surfaces (reference: control-plane 18.2, step 2).

A limit has a record of state, so that all processes count together and a reset forgets it.
"""

from __future__ import annotations

import time
from typing import Final

from kernel.durations import format_duration
from mocks.engine.transitions import StateContended
from mocks.model.calls import CallOutcome, MockAnswer
from mocks.model.ports import StateStore
from surfaces.behaviors import CallLimit

RATE_LIMIT: Final = "rateLimit:"  # begins the keys of these records
_SPARE: Final = 20  # attempts beyond one for each call that may take the place of this one


async def take_call(limit: CallLimit, key: str, store: StateStore, place: tuple[str, str]) -> int:
    """Count a call, and return 0, or in how many ms a further one may come; raise StateContended.

    `place` is the space and the surface. The window begins with its first call.
    """
    space, surface_id = place
    for _ in range(limit.calls + _SPARE):
        record = await store.read(space, key)
        fields = record.fields if record else {}
        now = time.time_ns() // 1_000_000
        calls, until = _whole(fields.get("calls", "")), _whole(fields.get("until", ""))
        if not now < until <= now + limit.per_ms:
            calls, until = 0, now + limit.per_ms
        if calls >= limit.calls:
            return until - now
        counted = {"calls": str(calls + 1), "until": str(until)}
        version = record.version if record else 0
        if await store.change(space, key, surface_id, version=version, fields=counted):
            return 0
    raise StateContended("other calls changed the count of a rate limit all the time")


def rate_limit_answer(limit: CallLimit, wait_ms: int) -> MockAnswer:
    """Return the answer to a call too many."""
    return MockAnswer(
        status=429,
        headers=(("Retry-After", str(-(-wait_ms // 1000))),),
        outcome=CallOutcome.REJECTED,
        error_code="mock_rate_limited",
        detail=f"more than {limit.calls} calls in {format_duration(limit.per_ms / 1000)}",
    )


def _whole(text: str) -> int:
    """Return a number of a record, which people may change; 0 for what is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < len("9" * 16) else 0
