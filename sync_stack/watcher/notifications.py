"""Change notifications of sinks, which start an early check (reference: sync-stack 6.1).

They are hints: a lost one costs time until the next poll, a wrong one a check.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

from django.db import Error as StoreError

from kernel.background import report_error
from sync_stack.configuration.secrets import SecretError
from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.sink import Changes, Destination, Notifying, Sink, SinkError

log: Final = logging.getLogger("partita.sync.watcher")
NOTICE_PAUSE_S: Final = 5.0  # between two checks of a target
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 300.0
TARGETS_S: Final = (
    5.0  # the longest age of the list of targets: a first sync adds one between two polls
)
_WAIT_S: Final = 1.0


class ChangeNotifications:
    """Call `check` with datasource and target, for each target every `pause_s` at most.

    `targets_of` reads the targets of a datasource from the store, each with its destination.
    """

    def __init__(
        self,
        bundle: Callable[[], Bundle],
        open_sink: Callable[[Datasource], Sink],
        check: Callable[[str, str], Awaitable[Any]],
        targets_of: Callable[[str], Awaitable[Mapping[str, Destination]]],
        *,
        pause_s: float = NOTICE_PAUSE_S,
    ) -> None:
        self._bundle = bundle
        self._open_sink = open_sink
        self._check = check
        self._targets_of = targets_of
        self._pause_s = pause_s
        self._targets: dict[str, Mapping[str, Destination]] = {}
        self._read_at: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._waiting: set[str] = set()  # targets with a check to come
        self._checks: set[asyncio.Task[None]] = set()
        self._checked_at: dict[str, float] = {}

    def follow(self, datasource: str, targets: Mapping[str, Destination]) -> None:
        """Replace the targets of a datasource whose changes are listened for."""
        self._targets[datasource] = targets
        self._read_at[datasource] = asyncio.get_running_loop().time()

    async def listen(self, datasource: str) -> None:
        """Listen until cancelled; a sink without notifications is tried again now and then."""
        with _thread(datasource) as thread:
            while True:
                try:
                    heard = await self._hear(datasource, thread)
                    pause = FIRST_PAUSE_S if heard else LONGEST_PAUSE_S
                except (SinkError, SecretError) as error:
                    pause = self._note_failure(datasource, error)
                await asyncio.sleep(pause)

    async def stop(self) -> None:
        checks = list(self._checks)
        for task in checks:
            task.cancel()
        await asyncio.gather(*checks, return_exceptions=True)
        self._waiting.clear()
        self._targets.clear()
        self._read_at.clear()
        self._checked_at.clear()

    def _note_failure(self, datasource: str, error: Exception) -> float:
        """Log the first failure; return the seconds until the next try."""
        known = self._failures.get(datasource, 0)
        self._failures[datasource] = known + 1
        if not known:
            fields = {"event": "notifications_failed", "datasource": datasource}
            log.warning("%s sends no change notifications: %s", datasource, error, extra=fields)
        return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(known, 10))

    async def _hear(self, datasource: str, thread: ThreadPoolExecutor) -> bool:
        """Listen until the datasource changes in the bundle; return False without notifications."""
        loop = asyncio.get_running_loop()
        known = self._datasource(datasource)
        if known is None:
            return False
        changes = await loop.run_in_executor(thread, self._open, known)
        if changes is None:
            return False
        try:
            while self._datasource(datasource) == known:
                targets = await self._known_targets(datasource)
                places = set(targets.values())
                ids = await loop.run_in_executor(thread, changes.next, places, _WAIT_S)
                self._failures.pop(datasource, None)
                for unit_id in [name for name, place in targets.items() if place.id in ids]:
                    self._bring_forward(datasource, unit_id)
        finally:
            thread.submit(changes.close)
        return True

    async def _known_targets(self, datasource: str) -> Mapping[str, Destination]:
        """Return the targets, read every TARGETS_S; the known ones while the store is away."""
        now = asyncio.get_running_loop().time()
        if now - self._read_at.get(datasource, float("-inf")) >= TARGETS_S:
            self._read_at[datasource] = now
            try:
                self.follow(datasource, await self._targets_of(datasource))
            except StoreError:  # the polls of this datasource report it
                log.debug("the targets of %s were not read: the store failed", datasource)
                report_error()
        return self._targets.get(datasource, {})

    def _datasource(self, name: str) -> Datasource | None:
        return next((each for each in self._bundle().datasources if each.name == name), None)

    def _open(self, datasource: Datasource) -> Changes | None:
        sink = self._open_sink(datasource)
        return sink.changes() if isinstance(sink, Notifying) else None

    def _bring_forward(self, datasource: str, unit_id: str) -> None:
        """Check a target now, or after its pause; one check covers all changes until then."""
        if unit_id not in self._waiting:
            self._waiting.add(unit_id)
            check = asyncio.create_task(self._check_soon(datasource, unit_id))
            self._checks.add(check)
            check.add_done_callback(self._checks.discard)

    async def _check_soon(self, datasource: str, unit_id: str) -> None:
        now = asyncio.get_running_loop().time
        since = now() - self._checked_at.get(unit_id, float("-inf"))
        await asyncio.sleep(max(0.0, self._pause_s - since))
        self._waiting.discard(unit_id)  # a change from now on needs another check
        self._checked_at[unit_id] = now()
        await self._check(datasource, unit_id)


@contextmanager
def _thread(datasource: str) -> Iterator[ThreadPoolExecutor]:
    """Yield one thread, so that the sink is closed after the read that is under way."""
    thread = ThreadPoolExecutor(1, thread_name_prefix=f"changes-{datasource}")
    try:
        yield thread
    finally:
        thread.shutdown(wait=False)
