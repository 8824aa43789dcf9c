"""What differs between the desired settings and the live ones; facts only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """`missing` and `changed`: key → desired value; `extra` and `unchanged`: keys."""

    missing: Mapping[str, str]
    changed: Mapping[str, str]
    extra: frozenset[str]
    unchanged: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.missing or self.changed or self.extra)

    @property
    def differing(self) -> frozenset[str]:
        """Keys that are missing or have another value live."""
        return frozenset(self.missing) | frozenset(self.changed)


def diff(desired: Mapping[str, str], live: Mapping[str, str]) -> Diff:
    """Values are compared as text: `1.10` is not `1.1`."""
    return Diff(
        missing={key: text for key, text in desired.items() if key not in live},
        changed={key: text for key, text in desired.items() if live.get(key, text) != text},
        extra=frozenset(live.keys() - desired.keys()),
        unchanged=frozenset(key for key, text in desired.items() if live.get(key) == text),
    )
