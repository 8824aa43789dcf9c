"""What a running unit uses, looked at now and then (reference: control-plane 11.2, usage)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final

from worker.domain.runtime import Runtime, RuntimeFailure, Unit, UnitUsage

log = logging.getLogger("partita.workers")
FIRST_S: Final = 1.0  # after the start, so that steps of a few seconds have figures too
TIMEOUT_S: Final = 5.0


class UsageSampler:
    """`latest` may be read on any thread; who reports it never waits for a look.

    A look that fails or takes too long is only missing.
    """

    def __init__(self, runtime: Runtime, unit: Unit, *, each_s: float) -> None:
        self._runtime = runtime
        self._unit = unit
        self._each_s = each_s
        self.latest: UnitUsage | None = None

    async def run(self) -> None:
        """Until canceled."""
        pause_s = min(FIRST_S, self._each_s)
        while True:
            await asyncio.sleep(pause_s)
            await self._look()
            pause_s = self._each_s

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                seen = await self._runtime.usage(self._unit)
        except (RuntimeFailure, TimeoutError) as failure:
            log.debug("what %s uses is not known now: %r", self._unit.name, failure)
            return
        if seen:
            self.latest = replace(seen, memory_peak_bytes=self._peak(seen))

    def _peak(self, seen: UnitUsage) -> int:
        """The highest of all looks, and what the runtime itself has seen between them."""
        before = self.latest.memory_peak_bytes if self.latest else None
        return max(seen.memory_bytes, seen.memory_peak_bytes or 0, before or 0)
