"""Durations as people write them. The wheel has `kernel/durations.py` in this place."""

from __future__ import annotations

from kernel.durations import format_duration, parse_duration_ms, rounded_duration

__all__ = ["format_duration", "parse_duration_ms", "rounded_duration"]
