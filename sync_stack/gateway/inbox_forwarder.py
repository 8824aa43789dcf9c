"""Hands the inbox on: in order of arrival within a repository, repositories side by side."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from kernel.background import keep_running
from sync_stack.configuration.logs import about
from sync_stack.gateway.answers import Code, Refusal
from sync_stack.gateway.forwarding import Forwarder
from sync_stack.gateway.inbox import ASIDE, QUEUED, Inbox, Queued
from sync_stack.gateway.metrics import Metrics

log: Final = logging.getLogger("partita.sync.gateway")

SIDE_BY_SIDE: Final = 8
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
_NEVER_TAKEN: Final = frozenset({Code.DATASOURCE_NOT_FOUND, Code.PAYLOAD_VALIDATION})


class InboxForwarder:
    """A task a repository that has deliveries; it ends when there are none left."""

    def __init__(
        self, inbox: Inbox, forwarder: Forwarder, metrics: Metrics, timeout_s: Callable[[], float]
    ) -> None:
        self._inbox = inbox
        self._forwarder = forwarder
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._lines: dict[str, deque[Queued]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(SIDE_BY_SIDE)
        self.first_pause_s = FIRST_PAUSE_S

    def start(self) -> None:
        """Also with what an earlier process left."""
        left, self._inbox.waiting = self._inbox.waiting, []
        self._inbox.on_put = self._add
        for entry in left:
            self._add(entry)
        inbox, gauge = self._inbox, self._metrics.inbox
        gauge.labels(QUEUED).set_function(lambda: inbox.count - inbox.aside)
        gauge.labels(ASIDE).set_function(lambda: inbox.aside)

    async def stop(self) -> None:
        """What is not handed on stays in the file."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _add(self, entry: Queued) -> None:
        line = self._lines.get(entry.repository)
        if line is not None:
            line.append(entry)
        else:
            self._lines[entry.repository] = deque((entry,))
            follow = partial(self._follow, entry.repository)
            task = asyncio.create_task(keep_running("inbox-forwarder", follow))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _follow(self, repository: str) -> None:
        line = self._lines[repository]
        pause = self.first_pause_s
        while line:
            if closed_for := self._forwarder.breaker.wait_s():
                await asyncio.sleep(min(LONGEST_PAUSE_S, closed_for))  # no try, so no longer pause
            elif await self._try(line[0]):
                line.popleft()
                pause = self.first_pause_s
            elif not self._forwarder.breaker.wait_s():
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE_S, pause * 2)
        del self._lines[repository]

    async def _try(self, entry: Queued) -> bool:
        """Whether the delivery needs no further try."""
        try:
            async with self._slots:
                sent = await asyncio.to_thread(self._inbox.read, entry)
                with about(correlation_id=sent.correlation_id):
                    await self._forwarder.forward(sent, timeout_s=self._timeout_s())
            await self._inbox.remove(entry)
        except Refusal as refusal:
            return refusal.code in _NEVER_TAKEN and await self._set_aside(entry, refusal)
        except KeyError:
            return True
        except sqlite3.Error as error:
            log.warning("the inbox cannot be used: %s", error, extra={"event": "inbox_failed"})
            return False
        return True

    async def _set_aside(self, entry: Queued, refusal: Refusal) -> bool:
        log.error(
            "a delivery is set aside: %s",
            refusal.message,
            extra={
                "event": "delivery_set_aside",
                "inbox_id": entry.id,
                "repository": entry.repository,
                "code": refusal.code.value,
            },
        )
        with contextlib.suppress(sqlite3.Error):  # then the next start tries it once more
            await self._inbox.set_aside(entry)
        return True
