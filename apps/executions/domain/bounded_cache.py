"""A cache of facts that never change, with a limit, for any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Keeps the `limit` values that were added last."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: dict[K, V] = {}
        self._lock = Lock()

    def get_many(self, keys: Iterable[K], read: Callable[[set[K]], Mapping[K, V]]) -> dict[K, V]:
        """Return the values of these keys; `read` is called once for those that are missing."""
        wanted = set(keys)
        with self._lock:
            known = {key: self._values[key] for key in wanted & self._values.keys()}
        if missing := wanted - known.keys():
            found = read(missing)
            self.add(found)
            known |= found
        return known

    def add(self, values: Mapping[K, V]) -> None:
        with self._lock:
            self._values.update(values)
            for key in list(self._values)[: -self._limit]:
                del self._values[key]

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
