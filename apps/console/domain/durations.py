"""Durations, times, sizes and usage as text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000


def short(duration_ms: int | None) -> str:
    """Return `850 ms`, `12.4 s`, `3 m 05 s` or `2 h 10 m`; empty for None."""
    if duration_ms is None:
        return ""
    if duration_ms < _SECOND:
        return f"{duration_ms} ms"
    if duration_ms < _MINUTE:
        return f"{duration_ms / _SECOND:.1f} s"
    if duration_ms < _HOUR:
        return f"{duration_ms // _MINUTE} m {duration_ms % _MINUTE // _SECOND:02d} s"
    return f"{duration_ms // _HOUR} h {duration_ms % _HOUR // _MINUTE:02d} m"


def ago(then: str, now: datetime) -> str:
    """Return the age of an RFC 3339 time: `just now`, `4 min ago`, `3 h ago`, `2 d ago`."""
    past_ms = (now - parsed(then)).total_seconds() * _SECOND
    for unit_ms, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if past_ms >= unit_ms:
            return f"{int(past_ms // unit_ms)} {name} ago"
    return "just now"


def parsed(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def size(count: int) -> str:
    """Return bytes as `512 B`, `3.4 KiB` or `1.2 MiB`."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:  # noqa: PLR2004
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def usage(figures: Mapping[str, float]) -> str:
    """Return the known parts of `12 % CPU · 34.0 MiB (peak 40.0 MiB)`."""
    parts = []
    if "cpuPercent" in figures:
        parts.append(f"{figures['cpuPercent']:.0f} % CPU")
    if "memoryBytes" in figures:
        parts.append(size(int(figures["memoryBytes"])))
    text = " · ".join(parts)
    if "memoryPeakBytes" in figures:
        peak = f"peak {size(int(figures['memoryPeakBytes']))}"
        text = f"{text} ({peak})" if text else peak
    return text
