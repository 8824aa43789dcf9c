"""The loops of the leader: a cycle a datasource, heals beside them (reference: sync-stack 6.1)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

from django.db import Error as StoreError
from django.db import close_old_connections

from kernel.background import keep_running
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.sink import Destination
from sync_stack.orchestrator.api import destination_of, drift, drift_records
from sync_stack.watcher.drift_check import DriftChecker, DriftCheckResult, Outcome
from sync_stack.watcher.healer import Ended, Healer
from sync_stack.watcher.notifications import NOTICE_PAUSE_S, ChangeNotifications

log: Final = logging.getLogger("partita.sync.watcher")
READ_S: Final = 30.0
JITTER_S: Final = 5.0
RETAIN_S: Final = 3600.0
_LOOK_EVERY_S: Final = 1.0
_STORE_AWAY_S: Final = 5.0
T = TypeVar("T")


class Threads:
    """Threads for what blocks; sinks have their own, so that a slow one holds up nothing else."""

    def __init__(self, looker: DriftChecker, concurrency: int) -> None:
        self._looker = looker
        self._pool = ThreadPoolExecutor(concurrency + 4, thread_name_prefix="store")
        self._readers = ThreadPoolExecutor(2 * concurrency, thread_name_prefix="sinks")
        self._reads = asyncio.Semaphore(concurrency)
        self._units: dict[str, asyncio.Lock] = {}

    async def run(self, act: Callable[..., T], *args: Any) -> T:
        return await _in(self._pool, act, *args)

    @asynccontextmanager
    async def reading(self, unit_id: str) -> AsyncIterator[None]:
        """One of the few that read at once, and the only one at this unit."""
        async with self._reads, self._units.setdefault(unit_id, asyncio.Lock()):
            yield

    async def look(self, unit_id: str) -> DriftCheckResult:
        """What takes longer than a read may counts as failed; the store's errors too."""
        try:
            async with asyncio.timeout(READ_S):
                return await _in(self._readers, self._looker.look, unit_id)
        except TimeoutError:
            log.warning("a read takes too long", extra={"event": "poll_failed", "unit_id": unit_id})
        except StoreError as error:
            log.warning(
                "the store failed: %s", type(error).__name__, extra={"event": "store_failed"}
            )
        return DriftCheckResult(outcome=Outcome.FAILED)

    async def close(self, grace_s: float) -> bool:
        """Whether all of them have ended in time."""
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


class Poller:
    """Works while this watcher leads; `run` is cancelled when it no longer does."""

    def __init__(
        self,
        looker: DriftChecker,
        healer: Healer,
        threads: Threads,
        *,
        bundle: Callable[[], Bundle],
        interval_s: float,
        notice_pause_s: float = NOTICE_PAUSE_S,
    ) -> None:
        self._looker = looker
        self._healer = healer
        self._threads = threads
        self._bundle = bundle
        self._interval_s = interval_s
        self._heals: dict[str, asyncio.Task[None]] = {}
        self._notices = ChangeNotifications(
            bundle,
            looker.open_sink,
            self._look_early,
            partial(threads.run, _units),
            pause_s=notice_pause_s,
        )

    async def run(self) -> None:
        """Until cancelled: loops for the datasources of the bundle in use, and old heals."""
        loops: dict[str, asyncio.Task[None]] = {}
        self._looker.memories.forget()
        retention = asyncio.create_task(keep_running("retention", self._retain))
        try:
            await self._resume()
            while True:
                self._keep_loops(loops)
                await asyncio.sleep(_LOOK_EVERY_S)
        finally:
            every = [retention, *loops.values(), *self._heals.values()]
            for task in every:
                task.cancel()
            await asyncio.gather(*every, return_exceptions=True)
            await self._notices.stop()
            self._heals.clear()
            self._looker.facts.clear()

    def _keep_loops(self, loops: dict[str, asyncio.Task[None]]) -> None:
        wanted = {rule.datasource for rule in self._bundle().rules}
        for name in wanted - loops.keys():
            loops[name] = asyncio.create_task(self._loop(name))
        for name in loops.keys() - wanted:
            loops.pop(name).cancel()

    async def _loop(self, datasource: str) -> None:
        """Each is repeated for itself: word of changes may fail while polls go on."""
        await asyncio.gather(
            keep_running("polls", partial(self._cycles, datasource)),
            keep_running("notices", partial(self._notices.listen, datasource)),
        )

    async def _cycles(self, datasource: str) -> None:
        clock = asyncio.get_running_loop().time
        jitter = min(JITTER_S, self._interval_s / 2)
        await asyncio.sleep(random.uniform(0, jitter))  # noqa: S311 - spreads load
        due = clock()
        while True:
            await self.cycle(datasource)
            due += self._interval_s
            late = max(0, int((clock() - due) // self._interval_s) + 1) if clock() > due else 0
            if late:
                self._looker.metrics.polls.labels(datasource, "late").inc(late)
                due += late * self._interval_s
            await asyncio.sleep(max(0.0, due - clock()))

    async def cycle(self, datasource: str) -> None:
        """Every unit once; those that were being synchronized once more at the end."""
        metrics = self._looker.metrics
        try:
            with metrics.poll_seconds.labels(datasource).time():
                units = await self._threads.run(_units, datasource)
                names = list(units)
                await self._threads.run(self._looker.memories.learn, names, self._looker.now())
                self._drop_gone(datasource, names)
                self._notices.follow(datasource, units)
                busy = await self._poll_all(datasource, names)
                await self._poll_all(datasource, busy)
        except StoreError as error:
            metrics.polls.labels(datasource, "error").inc()
            log.warning(
                "no cycle of %s: the store failed: %s",
                datasource,
                type(error).__name__,
                extra={"event": "store_failed"},
            )
            return
        metrics.last_poll.labels(datasource).set_to_current_time()

    def _drop_gone(self, datasource: str, names: Sequence[str]) -> None:
        known = set(names)
        facts = self._looker.facts
        for unit_id in [name for name, fact in facts.items() if fact.datasource == datasource]:
            if unit_id not in known:
                facts.pop(unit_id, None)

    async def _poll_all(self, datasource: str, names: Sequence[str]) -> list[str]:
        """Those that are busy."""
        polls = [self.poll_unit(datasource, name) for name in names]
        outcomes = await asyncio.gather(*polls, return_exceptions=True)
        busy = []
        for name, outcome in zip(names, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                self._tell_fault(datasource, name, outcome)
            elif outcome is Outcome.BUSY:
                busy.append(name)
        return busy

    def _tell_fault(self, datasource: str, unit_id: str, fault: BaseException) -> None:
        """A mistake of ours at one unit does not keep the others from being looked at."""
        if not isinstance(fault, Exception):
            raise fault
        self._looker.metrics.polls.labels(datasource, "error").inc()
        fields = {"event": "poll_failed", "unit_id": unit_id, "code": "internal_error"}
        log.error("a poll failed", exc_info=fault, extra=fields)

    async def poll_unit(self, datasource: str, unit_id: str, *, hinted: bool = False) -> Outcome:
        """`hinted`: out of turn; that it is clean then counts for no pause."""
        async with self._threads.reading(unit_id):
            look = await self._threads.look(unit_id)
            failed = look.outcome is Outcome.FAILED
            self._looker.metrics.polls.labels(datasource, "error" if failed else "ok").inc()
            if not self._healer.leads():
                return look.outcome
            drift_id = await self._record(look, hinted=hinted)
        if drift_id:
            self._start_heal(datasource, unit_id, drift_id)
        return look.outcome

    async def _look_early(self, datasource: str, unit_id: str) -> None:
        look = self.poll_unit(datasource, unit_id, hinted=True)
        (outcome,) = await asyncio.gather(look, return_exceptions=True)
        if isinstance(outcome, BaseException):
            self._tell_fault(datasource, unit_id, outcome)

    async def _record(self, look: DriftCheckResult, *, hinted: bool) -> str:
        try:
            return await self._threads.run(partial(self._looker.record, look, hinted=hinted))
        except StoreError as error:
            log.warning("not written down: the store failed: %s", type(error).__name__)
            return ""

    def _start_heal(self, datasource: str, unit_id: str, drift_id: str) -> None:
        if unit_id not in self._heals:
            work = self._heal(datasource, unit_id, drift_id)
            self._heals[unit_id] = asyncio.create_task(work)

    async def _heal(self, datasource: str, unit_id: str, drift_id: str) -> None:
        """One attempt; after one that failed the unit is looked at when the next may begin."""
        ended: list[Ended | None] = []

        async def heal() -> None:
            ended.append(await self._healed(drift_id))

        try:
            await keep_running("heals", heal)
        finally:
            self._heals.pop(unit_id, None)
        if ended[-1] is not None and self._looker.memories.of(unit_id).failures:
            before = self._heals.pop(f"again {unit_id}", None)
            if before is not None:
                before.cancel()
            again = partial(self._look_again, datasource, unit_id)
            self._heals[f"again {unit_id}"] = asyncio.create_task(keep_running("heals", again))

    async def _healed(self, drift_id: str) -> Ended | None:
        while True:
            try:
                return await self._healer.heal(drift_id)
            except StoreError as error:
                log.warning("a heal waits: the store failed: %s", type(error).__name__)
                await asyncio.sleep(_STORE_AWAY_S)

    async def _look_again(self, datasource: str, unit_id: str) -> None:
        due = self._looker.memories.of(unit_id).next_heal_at or self._looker.now()
        await asyncio.sleep(max(0.0, (due - self._looker.now()).total_seconds()))
        self._heals.pop(f"again {unit_id}", None)
        await self.poll_unit(datasource, unit_id)

    async def resume_stored(self) -> None:
        """Attempts that are under way, of whatever watcher: wait for them."""
        rows = await self._threads.run(drift.healing)
        units = [row.unit_id for row in rows]
        await self._threads.run(self._looker.memories.learn, units, self._looker.now())
        for row in rows:
            self._start_heal(row.datasource, row.unit_id, row.id)

    async def _resume(self) -> None:
        while True:
            try:
                await self.resume_stored()
            except StoreError as error:
                log.warning("heals wait: the store failed: %s", type(error).__name__)
                await asyncio.sleep(_LOOK_EVERY_S)
            else:
                return

    async def _retain(self) -> None:
        while True:
            try:
                await self._threads.run(drift_records.forget_old, self._looker.now())
            except StoreError as error:
                log.warning("no retention: the store failed: %s", type(error).__name__)
            await asyncio.sleep(RETAIN_S)


def _units(datasource: str) -> dict[str, Destination]:
    return {row.id: destination_of(row) for row in drift.units(datasource)}
