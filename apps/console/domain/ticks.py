"""The strip of ticks that stands for a run: one mark a step, grouped by status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MAX_TICKS = 48
WIDTH = 192.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One mark: its status, where it starts and how wide it is (of `WIDTH`)."""

    status: str
    x: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """Marks, and how far they reach."""

    ticks: tuple[Tick, ...]
    width: float


def strip(counts: Mapping[str, int]) -> Strip:
    marks = tuple(ticks(counts))
    return Strip(ticks=marks, width=marks[-1].x + marks[-1].width if marks else 0)


def ticks(counts: Mapping[str, int]) -> list[Tick]:
    """A mark a step; above `MAX_TICKS` steps one bar a status, as wide as its share."""
    total = sum(counts.values())
    if total == 0:
        return []
    if total > MAX_TICKS:
        return _bars(counts, total)
    pitch = min(WIDTH / total, 8.0)
    statuses = [status for status, count in counts.items() for _ in range(count)]
    return [
        Tick(status=status, x=round(index * pitch, 2), width=round(pitch - 2, 2))
        for index, status in enumerate(statuses)
    ]


def _bars(counts: Mapping[str, int], total: int) -> list[Tick]:
    bars, x = [], 0.0
    for status, count in counts.items():
        width = WIDTH * count / total
        bars.append(Tick(status=status, x=round(x, 2), width=round(max(width - 1, 0.5), 2)))
        x += width
    return bars
