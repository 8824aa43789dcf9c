"""CPU percent of a unit, from the difference between two samples of its CPU time."""

from __future__ import annotations

from typing import Final, NamedTuple

from worker.domain.runtime import Unit

_SHORTEST_S: Final = 0.1  # clocks of CPU time tick each 10 ms: less would be noise
_FORGOTTEN_S: Final = 3600.0


class _CpuSample(NamedTuple):
    at: float  # seconds since 1970
    cpu_s: float


class CpuMeter:
    """Remembers each unit's last sample; the first is compared with the unit's start."""

    def __init__(self) -> None:
        self._last: dict[str, _CpuSample] = {}

    def percent(self, unit: Unit, *, at: float, cpu_s: float) -> float | None:
        """Return the CPU percent (100 is one core), None without an earlier, older sample."""
        before = self._last.get(unit.id)
        if before is None and unit.started_at:
            before = _CpuSample(unit.started_at.timestamp(), 0.0)
        if before and 0 <= at - before.at < _SHORTEST_S:
            return None
        recent = at - _FORGOTTEN_S
        self._last = {key: each for key, each in self._last.items() if each.at > recent}
        self._last[unit.id] = _CpuSample(at, cpu_s)
        if before is None or at < before.at or cpu_s < before.cpu_s:  # a clock was set back
            return None
        return round(100 * (cpu_s - before.cpu_s) / (at - before.at), 1)
