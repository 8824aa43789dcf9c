"""Word of changes from the sinks: it brings a unit forward (reference: sync-stack 6.1).

The polls are the truth: what is lost here, or told wrongly, costs time or a look.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

from django.db import Error as StoreError

from sync_stack.configuration.secrets import SecretError
from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.sink import Changes, Destination, Notifying, Sink, SinkError

log: Final = logging.getLogger("partita.sync.watcher")
NOTICE_PAUSE_S: Final = 5.0  # between two looks at a unit
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 300.0
UNITS_S: Final = 5.0  # how old the list of units may be: a first sync adds one between two polls
_WAIT_S: Final = 1.0


class ChangeNotifications:
    """`look` is called with datasource and unit, for each unit every `pause_s` at most.

    `units_of` reads the units of a datasource from the store, each with its destination.
    """

    def __init__(
        self,
        bundle: Callable[[], Bundle],
        open_sink: Callable[[Datasource], Sink],
        look: Callable[[str, str], Awaitable[Any]],
        units_of: Callable[[str], Awaitable[Mapping[str, Destination]]],
        *,
        pause_s: float = NOTICE_PAUSE_S,
    ) -> None:
        self._bundle = bundle
        self._open_sink = open_sink
        self._look = look
        self._units_of = units_of
        self._pause_s = pause_s
        self._units: dict[str, Mapping[str, Destination]] = {}
        self._read_at: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._waiting: set[str] = set()  # units that will be looked at
        self._looks: set[asyncio.Task[None]] = set()
        self._looked: dict[str, float] = {}

    def follow(self, datasource: str, units: Mapping[str, Destination]) -> None:
        """Listen for these units from now on."""
        self._units[datasource] = units
        self._read_at[datasource] = asyncio.get_running_loop().time()

    async def listen(self, datasource: str) -> None:
        """Until cancelled; a sink that sends nothing is asked again now and then."""
        with _thread(datasource) as thread:
            while True:
                try:
                    heard = await self._hear(datasource, thread)
                    pause = FIRST_PAUSE_S if heard else LONGEST_PAUSE_S
                except (SinkError, SecretError) as error:
                    pause = self._failed(datasource, error)
                await asyncio.sleep(pause)

    async def stop(self) -> None:
        looks = list(self._looks)
        for task in looks:
            task.cancel()
        await asyncio.gather(*looks, return_exceptions=True)
        self._waiting.clear()
        self._units.clear()
        self._read_at.clear()
        self._looked.clear()

    def _failed(self, datasource: str, error: Exception) -> float:
        """Said once; the seconds until the next try."""
        known = self._failures.get(datasource, 0)
        self._failures[datasource] = known + 1
        if not known:
            fields = {"event": "notifications_failed", "datasource": datasource}
            log.warning("%s tells of no changes: %s", datasource, error, extra=fields)
        return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(known, 10))

    async def _hear(self, datasource: str, thread: ThreadPoolExecutor) -> bool:
        """Until the bundle has another datasource of this name; False when it tells nothing."""
        loop = asyncio.get_running_loop()
        known = self._datasource(datasource)
        if known is None:
            return False
        changes = await loop.run_in_executor(thread, self._open, known)
        if changes is None:
            return False
        try:
            while self._datasource(datasource) == known:
                units = await self._known_units(datasource)
                places = set(units.values())
                ids = await loop.run_in_executor(thread, changes.next, places, _WAIT_S)
                self._failures.pop(datasource, None)
                for unit_id in [name for name, place in units.items() if place.id in ids]:
                    self._bring_forward(datasource, unit_id)
        finally:
            thread.submit(changes.close)
        return True

    async def _known_units(self, datasource: str) -> Mapping[str, Destination]:
        """Return the units, read anew every UNITS_S; those known before while the store is away."""
        now = asyncio.get_running_loop().time()
        if now - self._read_at.get(datasource, float("-inf")) >= UNITS_S:
            self._read_at[datasource] = now
            try:
                self.follow(datasource, await self._units_of(datasource))
            except StoreError:  # the polls of this datasource report it
                log.debug("the units of %s are not read: the store failed", datasource)
        return self._units.get(datasource, {})

    def _datasource(self, name: str) -> Datasource | None:
        return next((each for each in self._bundle().datasources if each.name == name), None)

    def _open(self, datasource: Datasource) -> Changes | None:
        sink = self._open_sink(datasource)
        return sink.changes() if isinstance(sink, Notifying) else None

    def _bring_forward(self, datasource: str, unit_id: str) -> None:
        """Now, or when its pause is over; one look that waits sees all that comes until then."""
        if unit_id not in self._waiting:
            self._waiting.add(unit_id)
            look = asyncio.create_task(self._look_soon(datasource, unit_id))
            self._looks.add(look)
            look.add_done_callback(self._looks.discard)

    async def _look_soon(self, datasource: str, unit_id: str) -> None:
        now = asyncio.get_running_loop().time
        since = now() - self._looked.get(unit_id, float("-inf"))
        await asyncio.sleep(max(0.0, self._pause_s - since))
        self._waiting.discard(unit_id)  # what comes from now on is worth another look
        self._looked[unit_id] = now()
        await self._look(datasource, unit_id)


@contextmanager
def _thread(datasource: str) -> Iterator[ThreadPoolExecutor]:
    """One, so that closing comes after the look that is under way."""
    thread = ThreadPoolExecutor(1, thread_name_prefix=f"changes-{datasource}")
    try:
        yield thread
    finally:
        thread.shutdown(wait=False)
