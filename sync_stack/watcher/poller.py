"""The loops of the leader: polls of each datasource, and heals (reference: sync-stack 6.1)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from django.db import Error as StoreError

from kernel.background import keep_running, one_cycle, report_error
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.sink import Destination
from sync_stack.orchestrator.api import destination_of, drift, drift_records
from sync_stack.watcher.drift_check import CheckOutcome, DriftChecker, DriftCheckResult
from sync_stack.watcher.heal_requests import Healer, HealResult
from sync_stack.watcher.notifications import NOTICE_PAUSE_S, ChangeNotifications
from sync_stack.watcher.threads import WatcherThreads

log: Final = logging.getLogger("partita.sync.watcher")
JITTER_S: Final = 5.0
RETAIN_S: Final = 3600.0
_POLL_INTERVAL_S: Final = 1.0
_STORE_AWAY_S: Final = 2.0


class Poller:
    """The work of the leader; `run` is cancelled when this watcher no longer leads."""

    def __init__(
        self,
        checker: DriftChecker,
        healer: Healer,
        threads: WatcherThreads,
        *,
        bundle: Callable[[], Bundle],
        interval_s: float,
        notice_pause_s: float = NOTICE_PAUSE_S,
    ) -> None:
        self._checker = checker
        self._healer = healer
        self._threads = threads
        self._bundle = bundle
        self._interval_s = interval_s
        self._heals: dict[str, asyncio.Task[None]] = {}
        self._notifications = ChangeNotifications(
            bundle,
            checker.open_sink,
            self._check_early,
            partial(threads.run, _targets),
            pause_s=notice_pause_s,
        )

    async def run(self) -> None:
        """Run a loop for each datasource, and the heals under way, until cancelled."""
        loops: dict[str, asyncio.Task[None]] = {}
        self._checker.heal_states.forget()
        retention = asyncio.create_task(keep_running("retention", self._retain))
        try:
            await self._resume()
            while True:
                self._keep_loops(loops)
                await asyncio.sleep(_POLL_INTERVAL_S)
        finally:
            every = [retention, *loops.values(), *self._heals.values()]
            for task in every:
                task.cancel()
            await asyncio.gather(*every, return_exceptions=True)
            await self._notifications.stop()
            self._heals.clear()
            self._checker.facts.clear()

    def _keep_loops(self, loops: dict[str, asyncio.Task[None]]) -> None:
        wanted = {rule.datasource for rule in self._bundle().rules}
        for name in wanted - loops.keys():
            loops[name] = asyncio.create_task(self._loop(name))
        for name in loops.keys() - wanted:
            loops.pop(name).cancel()

    async def _loop(self, datasource: str) -> None:
        """Poll and listen, each restarted by itself: notifications may fail while polls go on."""
        await asyncio.gather(
            keep_running("polls", partial(self._cycles, datasource)),
            keep_running("notices", partial(self._notifications.listen, datasource)),
        )

    async def _cycles(self, datasource: str) -> None:
        clock = asyncio.get_running_loop().time
        jitter = min(JITTER_S, self._interval_s / 2)
        await asyncio.sleep(random.uniform(0, jitter))  # noqa: S311 - spreads load
        due = clock()
        while True:
            with one_cycle():
                is_polled = await self.cycle(datasource)
            if not is_polled:
                await asyncio.sleep(min(self._interval_s, _STORE_AWAY_S))
                continue
            due += self._interval_s
            late = max(0, int((clock() - due) // self._interval_s) + 1) if clock() > due else 0
            if late:
                self._checker.metrics.polls.labels(datasource, "late").inc(late)
                due += late * self._interval_s
            await asyncio.sleep(max(0.0, due - clock()))

    async def cycle(self, datasource: str) -> bool:
        """Poll every target once, and again at the end those that were being written.

        Return False if the store failed.
        """
        metrics = self._checker.metrics
        try:
            with metrics.poll_seconds.labels(datasource).time():
                targets = await self._threads.run(_targets, datasource)
                names = list(targets)
                await self._threads.run(self._checker.heal_states.learn, names, self._checker.now())
                self._drop_removed(datasource, names)
                self._notifications.follow(datasource, targets)
                busy = await self._poll_all(datasource, names)
                await self._poll_all(datasource, busy)
        except StoreError as error:
            metrics.polls.labels(datasource, "error").inc()
            log.warning(
                "%s was not polled: the store failed: %s",
                datasource,
                type(error).__name__,
                extra={"event": "store_failed"},
            )
            report_error()
            return False
        metrics.last_poll.labels(datasource).set_to_current_time()
        return True

    def _drop_removed(self, datasource: str, names: Sequence[str]) -> None:
        known = set(names)
        facts = self._checker.facts
        for unit_id in [name for name, fact in facts.items() if fact.datasource == datasource]:
            if unit_id not in known:
                facts.pop(unit_id, None)

    async def _poll_all(self, datasource: str, names: Sequence[str]) -> list[str]:
        """Poll targets; return those that are busy."""
        polls = [self.poll_unit(datasource, name) for name in names]
        outcomes = await asyncio.gather(*polls, return_exceptions=True)
        busy = []
        for name, outcome in zip(names, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                self._log_fault(datasource, name, outcome)
            elif outcome is CheckOutcome.BUSY:
                busy.append(name)
        return busy

    def _log_fault(self, datasource: str, unit_id: str, fault: BaseException) -> None:
        """Log an unexpected error at one target, which must not stop the others."""
        if not isinstance(fault, Exception):
            raise fault
        self._checker.metrics.polls.labels(datasource, "error").inc()
        fields = {"event": "poll_failed", "unit_id": unit_id, "code": "internal_error"}
        log.error("a poll failed", exc_info=fault, extra=fields)

    async def poll_unit(
        self, datasource: str, unit_id: str, *, notified: bool = False
    ) -> CheckOutcome:
        """Poll a target. `notified`: out of turn; a clean result then shortens no pause."""
        async with self._threads.reading(unit_id):
            check = await self._threads.check(unit_id)
            failed = check.outcome is CheckOutcome.FAILED
            self._checker.metrics.polls.labels(datasource, "error" if failed else "ok").inc()
            if not self._healer.leads():
                return check.outcome
            drift_id = await self._record(check, notified=notified)
        if drift_id:
            self._start_heal(datasource, unit_id, drift_id)
        return check.outcome

    async def _check_early(self, datasource: str, unit_id: str) -> None:
        check = self.poll_unit(datasource, unit_id, notified=True)
        (outcome,) = await asyncio.gather(check, return_exceptions=True)
        if isinstance(outcome, BaseException):
            self._log_fault(datasource, unit_id, outcome)

    async def _record(self, check: DriftCheckResult, *, notified: bool) -> str:
        try:
            return await self._threads.run(partial(self._checker.record, check, notified=notified))
        except StoreError as error:
            log.warning("a poll was not recorded: the store failed: %s", type(error).__name__)
            report_error()
            return ""

    def _start_heal(self, datasource: str, unit_id: str, drift_id: str) -> None:
        if unit_id not in self._heals:
            work = self._heal(datasource, unit_id, drift_id)
            self._heals[unit_id] = asyncio.create_task(work)

    async def _heal(self, datasource: str, unit_id: str, drift_id: str) -> None:
        """Make one attempt; after a failed one poll the target when the next one may begin."""
        ended: list[HealResult | None] = []

        async def heal() -> None:
            ended.append(await self._heal_drift(drift_id))

        try:
            await keep_running("heals", heal)
        finally:
            self._heals.pop(unit_id, None)
        if ended[-1] is not None and self._checker.heal_states.of(unit_id).failures:
            before = self._heals.pop(f"again {unit_id}", None)
            if before is not None:
                before.cancel()
            again = partial(self._check_again, datasource, unit_id)
            self._heals[f"again {unit_id}"] = asyncio.create_task(keep_running("heals", again))

    async def _heal_drift(self, drift_id: str) -> HealResult | None:
        while True:
            try:
                return await self._healer.heal(drift_id)
            except StoreError as error:
                log.warning("a heal waits: the store failed: %s", type(error).__name__)
                report_error()
                await asyncio.sleep(_STORE_AWAY_S)

    async def _check_again(self, datasource: str, unit_id: str) -> None:
        due = self._checker.heal_states.of(unit_id).next_heal_at or self._checker.now()
        await asyncio.sleep(max(0.0, (due - self._checker.now()).total_seconds()))
        self._heals.pop(f"again {unit_id}", None)
        await self.poll_unit(datasource, unit_id)

    async def resume_stored(self) -> None:
        """Wait for the attempts that are under way, whichever watcher began them."""
        rows = await self._threads.run(drift.list_healing)
        targets = [row.unit_id for row in rows]
        await self._threads.run(self._checker.heal_states.learn, targets, self._checker.now())
        for row in rows:
            self._start_heal(row.datasource, row.unit_id, row.id)

    async def _resume(self) -> None:
        while True:
            try:
                await self.resume_stored()
            except StoreError as error:
                log.warning("heals wait: the store failed: %s", type(error).__name__)
                report_error()
                await asyncio.sleep(_POLL_INTERVAL_S)
            else:
                return

    async def _retain(self) -> None:
        while True:
            pause_s = RETAIN_S
            with one_cycle():
                try:
                    await self._threads.run(drift_records.delete_old_episodes, self._checker.now())
                except StoreError as error:
                    log.warning("no retention: the store failed: %s", type(error).__name__)
                    report_error()
                    pause_s = _STORE_AWAY_S
            await asyncio.sleep(pause_s)


def _targets(datasource: str) -> dict[str, Destination]:
    return {row.id: destination_of(row) for row in drift.list_targets(datasource)}
