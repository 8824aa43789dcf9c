"""What an attempt uses, as the row of its step keeps it."""

from __future__ import annotations

from typing import Any, Final

from apps.executions.domain.reports import Usage
from apps.executions.models import Step

UNMEASURED: Final[dict[str, Any]] = {
    "cpu_percent": None,
    "memory_bytes": None,
    "memory_peak_bytes": None,
}


def figures(step: Step, usage: Usage) -> dict[str, Any]:
    """The newest; the peak never falls, for who adopts an attempt knows its own looks only."""
    peaks = (step.memory_peak_bytes, usage.memory_peak_bytes)
    return {
        "cpu_percent": usage.cpu_percent,
        "memory_bytes": usage.memory_bytes,
        "memory_peak_bytes": max((peak for peak in peaks if peak is not None), default=None),
    }
