"""Threads for blocking calls of the watcher."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from django.db import Error as StoreError
from django.db import close_old_connections

from kernel.background import report_error
from sync_stack.watcher.drift_check import CheckOutcome, DriftChecker, DriftCheckResult

log: Final = logging.getLogger("partita.sync.watcher")
READ_S: Final = 30.0
T = TypeVar("T")


class WatcherThreads:
    """Threads for blocking calls; reads of sinks have their own, so that only they wait for one."""

    def __init__(self, checker: DriftChecker, concurrency: int) -> None:
        self._checker = checker
        self._pool = ThreadPoolExecutor(concurrency + 4, thread_name_prefix="store")
        self._readers = ThreadPoolExecutor(2 * concurrency, thread_name_prefix="sinks")
        self._reads = asyncio.Semaphore(concurrency)
        self._targets: dict[str, asyncio.Lock] = {}

    async def run(self, act: Callable[..., T], *args: Any) -> T:
        return await _in(self._pool, act, *args)

    @asynccontextmanager
    async def reading(self, unit_id: str) -> AsyncIterator[None]:
        """Limit the reads at once, to one for each target."""
        async with self._reads, self._targets.setdefault(unit_id, asyncio.Lock()):
            yield

    async def check(self, unit_id: str) -> DriftCheckResult:
        """Check a target; a timeout and the store's errors count as failed."""
        try:
            async with asyncio.timeout(READ_S):
                return await _in(self._readers, self._checker.check, unit_id)
        except TimeoutError:
            log.warning("a read takes too long", extra={"event": "poll_failed", "unit_id": unit_id})
        except StoreError as error:
            log.warning(
                "the store failed: %s", type(error).__name__, extra={"event": "store_failed"}
            )
            report_error()
        return DriftCheckResult(outcome=CheckOutcome.FAILED)

    async def close(self, grace_s: float) -> bool:
        """Stop the threads; return whether all of them have ended in time."""
        pools = (self._pool, self._readers)
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)
        loop = asyncio.get_running_loop()
        ending = {loop.run_in_executor(None, pool.shutdown) for pool in pools}
        _done, late = await asyncio.wait(ending, timeout=grace_s)
        return not late


async def _in(pool: ThreadPoolExecutor, act: Callable[..., T], *args: Any) -> T:
    def call() -> T:
        close_old_connections()
        try:
            return act(*args)
        finally:
            close_old_connections()

    return await asyncio.get_running_loop().run_in_executor(pool, call)
