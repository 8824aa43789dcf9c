"""Counts of a hot path, kept in plain numbers and told when somebody collects them.

    calls = tallied("partita.mock.requests", "partita.mock.duration.ms")
    record = calls.recorder("rest", "example", "fallback")
    record(duration_ms)

A prometheus_client counter and histogram cost several times as much for each call.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

Mirror = Callable[[float, dict[str, str]], None]


class Tally:
    """How many calls of one set of attributes there were, and how long they took."""

    __slots__ = ("attributes", "buckets", "mirror", "number", "sum", "uppers")

    def __init__(
        self, uppers: Sequence[float], attributes: dict[str, str], mirror: Mirror | None
    ) -> None:
        self.uppers = uppers
        self.attributes = attributes
        self.mirror = mirror
        self.number = 0
        self.sum = 0.0
        self.buckets = [0] * (len(uppers) + 1)

    def record(self, value: float) -> None:
        self.number += 1
        self.sum += value
        self.buckets[bisect_left(self.uppers, value)] += 1
        if self.mirror is not None:
            self.mirror(value, self.attributes)


class Tallies:
    """The tallies of a counter and a histogram with the same attributes.

    Calls of one set of attributes must come from one thread: additions are not locked.
    """

    def __init__(self, names: Sequence[str], uppers: Sequence[float]) -> None:
        self.names: Final = tuple(names)
        self.uppers: Final = tuple(map(float, uppers))
        self._tallies: dict[tuple[str, ...], Tally] = {}
        self._mirror: Mirror | None = None

    def recorder(self, *values: str) -> Callable[[float], None]:
        """Return what is told the durations of calls with these attributes."""
        found = self._tallies.get(values)
        if found is None:
            attributes = dict(zip(self.names, values, strict=True))
            found = Tally(self.uppers, attributes, self._mirror)
            self._tallies[values] = found
        return found.record

    def all(self) -> Iterable[Tally]:
        return list(self._tallies.values())

    def set_mirror(self, mirror: Mirror | None) -> None:
        """Tell `mirror` too of each duration, from now on."""
        self._mirror = mirror
        for tally in self.all():
            tally.mirror = mirror


class TalliedCounter(Collector):
    def __init__(self, name: str, help_text: str, tallies: Tallies) -> None:
        self._name, self._help, self._tallies = name, help_text, tallies

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(self._name, self._help, labels=_flat(self._tallies.names))
        for tally in self._tallies.all():
            family.add_metric(list(tally.attributes.values()), tally.number)
        yield family


class TalliedHistogram(Collector):
    def __init__(self, name: str, help_text: str, tallies: Tallies) -> None:
        self._name, self._help, self._tallies = name, help_text, tallies

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(self._name, self._help, labels=_flat(self._tallies.names))
        for tally in self._tallies.all():
            uppers = [*map(floatToGoString, self._tallies.uppers), "+Inf"]
            total, buckets = 0, []
            for upper, number in zip(uppers, tally.buckets, strict=True):
                total += number
                buckets.append((upper, total))
            family.add_metric(list(tally.attributes.values()), buckets, tally.sum)
        yield family


def _flat(names: Iterable[str]) -> list[str]:
    return [name.replace(".", "_") for name in names]
