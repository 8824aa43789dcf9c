"""Recent responses of secret managers, in memory.

A manager has 5 s to respond. A response is kept for 10 s, for the steps that start together. After
no response the manager is not asked for 5 s, because claims wait here.
(reference: control-plane 10)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from apps.platform_settings.domain.secrets import ManagerUnavailable
from kernel.vault import WITHIN_S

KEPT_S: Final = 10.0
PAUSE_S: Final = 5.0
_MOST_KEPT: Final = 1_000
_THREADS: Final = 4
Fetch = Callable[[], Any]


class ManagerCache:
    """Recent responses of secret managers, in memory, for any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[Hashable, tuple[float, Any]] = {}
        self._away: dict[Hashable, tuple[float, str]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="secrets")

    def read(self, manager: Hashable, secret: str, fetch: Fetch) -> Any:
        """Return what `fetch` returns, now or up to 10 s ago; raise ManagerFailed."""
        with self._lock:
            until, found = self._kept.get((manager, secret), (0.0, None))
            if until > self._clock():
                return found
            until, why = self._away.get(manager, (0.0, ""))
            if until > self._clock():
                raise ManagerUnavailable(why)
        try:
            found = self.call_with_limit(fetch)
        except ManagerUnavailable as error:
            raise self._mark_unavailable(manager, str(error)) from None
        self._keep((manager, secret), found)
        return found

    def call_with_limit(self, call: Fetch) -> Any:
        """Return what `call` returns within 5 s; raise ManagerUnavailable and what it raises."""
        try:
            return self._threads.submit(call).result(WITHIN_S)
        except TimeoutError:
            raise ManagerUnavailable(f"no answer within {WITHIN_S:g} s") from None

    def forget(self) -> None:
        with self._lock:
            self._kept.clear()
            self._away.clear()

    def _mark_unavailable(self, manager: Hashable, why: str) -> ManagerUnavailable:
        with self._lock:
            self._away[manager] = (self._clock() + PAUSE_S, why)
        return ManagerUnavailable(why)

    def _keep(self, key: Hashable, found: Any) -> None:
        with self._lock:
            now = self._clock()
            self._kept = {known: kept for known, kept in self._kept.items() if kept[0] > now}
            self._away = {known: away for known, away in self._away.items() if away[0] > now}
            if len(self._kept) < _MOST_KEPT:
                self._kept[key] = (now + KEPT_S, found)


manager_cache: Final = ManagerCache()
