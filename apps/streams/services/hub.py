"""The hub of a process polls the store once for all followers and wakes them.

A nudge causes a poll at once, further nudges within 50 ms share the next one, and without nudges
the hub polls every 0.25 s. It reads on two threads of its own, so that no stream holds a connection
to the store. Followers that fell behind use the second thread and never delay the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from django.db import Error as StoreError
from django.db import connection

from apps.operations.api import DatastoreUnavailable
from apps.streams import selectors
from apps.streams.domain.sse_frames import RecordPage
from apps.streams.services.feeds import Envelope, Feed, SnapshotFeed, Take, TopicFeed, ViewOver
from apps.streams.services.nudges import listen
from apps.streams.services.unit_of_work import release_stale_connection
from kernel.background import keep_running, one_cycle, report_error

T = TypeVar("T")
F = TypeVar("F", bound=Feed)
Poll = tuple[int, str, RecordPage | None] | Exception | None
logger = logging.getLogger("partita.streams")

TICK_S: Final = 0.05
POLL_INTERVAL_S: Final = 0.25
PING_S: Final = 15.0  # without a frame on one stream
STORE_IS_AWAY: Final = (StoreError, DatastoreUnavailable)


class Hub:
    """Belongs to one event loop. Call `start()` before use and `stop()` afterwards."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.over = False  # draining, stopped or broken: followers end
        self.draining = False
        self._live = ThreadPoolExecutor(1, thread_name_prefix="streams-live")
        self._replay = ThreadPoolExecutor(1, thread_name_prefix="streams-replay")
        self._feeds: dict[tuple[str, str], Feed] = {}
        self._nudged: set[str] = set()
        self._woken = asyncio.Event()
        self._poll_at = self._tick_at = self.loop.time()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._store_away = False

    def start(self) -> None:
        self._loop_task = self.spawn(keep_running("streams", self._run))
        self._loop_task.add_done_callback(lambda _: self._end())

    def drain(self) -> None:
        """End every stream, also later ones, after the record that it is sending."""
        self.draining = True
        self._end()

    async def stop(self) -> None:
        self.drain()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for executor in (self._live, self._replay):
            await self.loop.run_in_executor(executor, lambda: connection.close())  # noqa: PLW0108 - the thread's own
            executor.shutdown(wait=False)

    # Followers

    @contextlib.contextmanager
    def share_feed(self, key: tuple[str, str], make: Callable[[], F]) -> Iterator[F]:
        """Provide the feed of `key`, shared by its followers."""
        feed: Any = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = make()
            feed.unlisten = listen(feed.nudge_name, lambda: self._on_nudge(feed.nudge_name))
            self._woken.set()
        feed.followers += 1
        try:
            yield feed
        finally:
            feed.followers -= 1
            if not feed.followers:
                feed.unlisten()
                if self._feeds.get(key) is feed:
                    del self._feeds[key]

    def topic(
        self, name: str, member: str, envelope: Envelope
    ) -> contextlib.AbstractContextManager[TopicFeed]:
        return self.share_feed(("", name), lambda: TopicFeed(name, member, envelope))

    def snapshots(
        self, nudge_name: str, scope: str, take: Take, poll_s: float, *, numbered: bool = False
    ) -> contextlib.AbstractContextManager[SnapshotFeed]:
        return self.share_feed(
            (nudge_name, scope),
            lambda: SnapshotFeed(nudge_name, take, poll_s, numbered=numbered),
        )

    async def read(self, work: Callable[[], T]) -> T:
        """Run `work` on the thread for replays."""
        return await self.loop.run_in_executor(self._replay, _on_store, work)

    async def replay(
        self, feed: TopicFeed, cursor: int, sources: frozenset[str]
    ) -> RecordPage | None:
        """Read the page after `cursor` from the store, once for all followers at that number.

        Return None when the feed was removed or, after a pause, when the store is unavailable.
        """
        try:
            page = await asyncio.shield(self._shared_replay(feed, cursor, sources))
        except STORE_IS_AWAY as error:
            feed.replays.pop((cursor, sources), None)
            self._note_store(away=error)
            await asyncio.sleep(POLL_INTERVAL_S)
            return None
        if page is None:
            feed.remove()
        return page

    def _shared_replay(
        self, feed: TopicFeed, cursor: int, sources: frozenset[str]
    ) -> asyncio.Future[RecordPage | None]:
        shared = feed.replays.get((cursor, sources))
        if shared is None:
            head = feed.head
            reading = self.read(lambda: feed.read(after=cursor, upto=head, sources=sources))
            shared = feed.replays[cursor, sources] = self.spawn(reading)
        return shared

    # Polls

    def _on_nudge(self, name: str) -> None:
        """Include `name` in the next poll; callable on any thread.

        A poll takes the names before it reads the store, so no change is missed.
        """

        def add() -> None:
            self._nudged.add(name)
            self._woken.set()

        if name not in self._nudged and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(add)

    async def _run(self) -> None:
        while True:
            await self._wait_until_due()
            await self._poll()
            for feed in self._feeds.values():
                feed.wake(silent_since=self.loop.time() - PING_S)

    async def _wait_until_due(self) -> None:
        await asyncio.sleep(self._tick_at - self.loop.time())
        if not self._feeds:
            await self._woken.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._poll_at):
                await self._woken.wait()

    async def _poll(self) -> None:
        self._woken.clear()
        nudged, self._nudged = self._nudged, set()
        now = self.loop.time()
        self._tick_at = now + TICK_S
        everything = now >= self._poll_at
        if everything:
            self._poll_at = now + POLL_INTERVAL_S
        feeds = list(self._feeds.values())
        for feed in feeds:
            if isinstance(feed, SnapshotFeed) and feed.is_due(now, nudged):
                feed.taken_by = self.spawn(self._take(feed, now))
        topics = [feed for feed in feeds if isinstance(feed, TopicFeed)]
        due = [f for f in topics if everything or not f.ready or f.topic in nudged]
        if due:
            with one_cycle():
                await self._poll_topics(due)

    async def _poll_topics(self, feeds: Sequence[TopicFeed]) -> None:
        try:
            polls = await self.loop.run_in_executor(self._live, _on_store, lambda: _poll_all(feeds))
        except STORE_IS_AWAY as error:
            self._note_store(away=error)
            report_error()
            return
        self._note_store(away=None)
        for feed, poll in zip(feeds, polls, strict=True):
            if poll is None:
                feed.remove()
            elif isinstance(poll, Exception):
                self._fail(feed, poll)
            else:
                feed.advance(*poll)

    async def _take(self, feed: SnapshotFeed, now: float) -> None:
        feed.begin(now)
        try:
            body = await self.read(feed.take)
        except STORE_IS_AWAY as error:
            feed.taking = False
            self._note_store(away=error)
        except ViewOver as over:
            feed.finish(over.status)
        except Exception as error:  # noqa: BLE001 - the followers raise it
            self._fail(feed, error)
        else:
            feed.advance(body)

    def _fail(self, feed: Feed, error: Exception) -> None:
        """Raise the error in the followers; clients reconnect and get a new feed."""
        for key in [key for key, known in self._feeds.items() if known is feed]:
            del self._feeds[key]
        feed.fail(error)

    def _note_store(self, *, away: Exception | None) -> None:
        if away and not self._store_away:
            logger.warning("Streams wait for the store: %s", type(away).__name__)
        self._store_away = away is not None

    def _end(self) -> None:
        self.over = True
        for feed in self._feeds.values():
            feed.wake()

    def is_ping_due(self, sent_at: float) -> bool:
        """Return whether a follower whose last frame was sent at `sent_at` must send a ping."""
        return self.loop.time() - sent_at >= PING_S

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        # With an empty context: a task created in a request would inherit the request's thread.
        task = self.loop.create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error and not isinstance(error, STORE_IS_AWAY):
            logger.error("A read of the hub failed", exc_info=error)


def _on_store(work: Callable[[], T]) -> T:
    release_stale_connection()
    return work()


def _poll_all(feeds: Sequence[TopicFeed]) -> list[Poll]:
    """Return, for each topic, its end and its new page, None if it was deleted, or the error."""
    ends = selectors.ends(feed.topic for feed in feeds)
    return [_poll_one(feed, ends.get(feed.topic)) for feed in feeds]


def _poll_one(feed: TopicFeed, end: tuple[int, str] | None) -> Poll:
    if end is None:
        return None
    try:
        return (*end, feed.read_new(end[0]))
    except STORE_IS_AWAY:
        raise
    except Exception as error:  # noqa: BLE001 - one feed's error must not end the others
        return error


_hub: Hub | None = None


def process_hub() -> Hub:
    """Return the hub of this process; start one when the running loop has none."""
    global _hub  # noqa: PLW0603 - one per process
    stale = _hub is None or _hub.loop is not asyncio.get_running_loop()
    if _hub is None or stale or (_hub.over and not _hub.draining):
        _hub = Hub()
        _hub.start()
    return _hub


async def stop_hub() -> None:
    global _hub
    hub, _hub = _hub, None
    if hub and hub.loop is asyncio.get_running_loop():
        await hub.stop()
