"""What a container uses, from one answer of the engine's statistics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from worker.runtimes.docker import engine_http
from worker.runtimes.docker.address import EngineAddress

_NANOSECONDS: Final = 1e9
# of control groups version 1 and 2: files kept in memory that the kernel takes back when needed
_CACHES: Final = ("total_inactive_file", "inactive_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """`cpu_s`: since the start. The peak is told by version 1 only, and counts cached files."""

    cpu_s: float
    memory_bytes: int
    memory_peak_bytes: int | None


async def counters_of(address: EngineAddress, unit_id: str) -> Counters | None:
    """None: it does not run. Raises OSError, TimeoutError, ConnectionBroken, EngineRefused.

    Not through the SDK: an engine that does not answer would hold one of its threads.
    """
    path = f"/containers/{unit_id}/stats?stream=0&one-shot=1"
    try:
        return parse_counters(json.loads(await engine_http.whole_answer(address, path)))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise engine_http.ConnectionBroken from error


def parse_counters(stats: Mapping[str, Any]) -> Counters | None:
    memory = stats["memory_stats"]
    if not memory.get("usage"):  # of a container that has ended everything is empty or zero
        return None
    return Counters(
        cpu_s=stats["cpu_stats"]["cpu_usage"]["total_usage"] / _NANOSECONDS,
        memory_bytes=_without_cache(int(memory["usage"]), memory.get("stats") or {}),
        memory_peak_bytes=int(memory["max_usage"]) if memory.get("max_usage") else None,
    )


def _without_cache(usage: int, details: Mapping[str, int]) -> int:
    """The figure of `docker stats`."""
    cached = next((details[name] for name in _CACHES if name in details), 0)
    return max(0, usage - cached if cached < usage else usage)
