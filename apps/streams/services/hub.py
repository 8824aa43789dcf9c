"""One hub a process: it looks into the store once for all who follow, and wakes them.

A nudge makes it look at once, a tick of 50 ms gathers what follows, and a poll each 0.25 s finds
what no nudge told of. It reads on two threads of its own: a stream never holds a connection to
the store. Followers that fell behind use the second thread, so they never delay the live end.
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

from apps.streams import selectors
from apps.streams.domain.frames import Page
from apps.streams.services.feeds import Envelope, Feed, SnapshotFeed, Take, TopicFeed
from apps.streams.services.nudges import listen
from apps.streams.services.unit_of_work import release_stale_connection
from apps.system.api import DatastoreUnavailable
from kernel.background import keep_running

T = TypeVar("T")
F = TypeVar("F", bound=Feed)
Look = tuple[int, str, Page | None] | Exception | None
logger = logging.getLogger("partita.streams")

TICK_S: Final = 0.05
POLL_S: Final = 0.25
PING_S: Final = 15.0  # of silence on one stream
STORE_IS_AWAY: Final = (StoreError, DatastoreUnavailable)


class Hub:
    """Belongs to one event loop; `start()` before use, `stop()` after."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.over = False  # draining, stopped or broken: followers end
        self.draining = False
        self._live = ThreadPoolExecutor(1, thread_name_prefix="streams-live")
        self._replay = ThreadPoolExecutor(1, thread_name_prefix="streams-replay")
        self._feeds: dict[tuple[str, str], Feed] = {}
        self._nudged: set[str] = set()
        self._stirred = asyncio.Event()
        self._poll_at = self._tick_at = self.loop.time()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._store_away = False

    def start(self) -> None:
        self._rounds = self.spawn(keep_running("streams", self._run))
        self._rounds.add_done_callback(lambda _: self._end())

    def drain(self) -> None:
        """Every stream ends after the record that it is sending, now and from now on."""
        self.draining = True
        self._end()

    async def stop(self) -> None:
        self.drain()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for executor in (self._live, self._replay):
            await self.loop.run_in_executor(executor, _close_connection)
            executor.shutdown(wait=False)

    # Followers

    @contextlib.contextmanager
    def followed(self, key: tuple[str, str], make: Callable[[], F]) -> Iterator[F]:
        """The feed of `key`, shared by all who follow it at once."""
        feed: Any = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = make()
            feed.unlisten = listen(feed.nudge_name, lambda: self._hear(feed.nudge_name))
            self._stirred.set()
        feed.followers += 1
        try:
            yield feed
        finally:
            feed.followers -= 1
            if not feed.followers:
                self._forget(key, feed)

    def topic(
        self, name: str, member: str, envelope: Envelope
    ) -> contextlib.AbstractContextManager[TopicFeed]:
        return self.followed(("", name), lambda: TopicFeed(name, member, envelope))

    def snapshots(
        self, nudge_name: str, scope: str, take: Take
    ) -> contextlib.AbstractContextManager[SnapshotFeed]:
        return self.followed((nudge_name, scope), lambda: SnapshotFeed(nudge_name, take))

    async def read(self, work: Callable[[], T]) -> T:
        """Run `work` on the thread for what is not live."""
        return await self.loop.run_in_executor(self._replay, _on_store, work)

    async def replay(self, feed: TopicFeed, cursor: int, sources: frozenset[str]) -> Page | None:
        """The page beyond `cursor` from the store; followers at one place share one reading.

        None when there is none: the feed was removed, or the store is away (after a pause).
        """
        try:
            page = await asyncio.shield(self._shared_replay(feed, cursor, sources))
        except STORE_IS_AWAY as error:
            feed.replays.pop((cursor, sources), None)
            self._note_store(away=error)
            await asyncio.sleep(POLL_S)
            return None
        if page is None:
            feed.remove()
        return page

    def _shared_replay(
        self, feed: TopicFeed, cursor: int, sources: frozenset[str]
    ) -> asyncio.Future[Page | None]:
        shared = feed.replays.get((cursor, sources))
        if shared is None:
            head = feed.head
            reading = self.read(lambda: feed.read(after=cursor, upto=head, sources=sources))
            shared = feed.replays[cursor, sources] = self.spawn(reading)
        return shared

    def _forget(self, key: tuple[str, str], feed: Feed) -> None:
        feed.unlisten()
        if self._feeds.get(key) is feed:
            del self._feeds[key]

    # Rounds

    def _hear(self, name: str) -> None:
        """Any thread: look at `name` in the next round. A round looks after it took the names."""
        if name not in self._nudged and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._mark, name)

    def _mark(self, name: str) -> None:
        self._nudged.add(name)
        self._stirred.set()

    async def _run(self) -> None:
        while True:
            await self._until_due()
            await self._round()
            self._wake_silent()

    async def _until_due(self) -> None:
        await asyncio.sleep(self._tick_at - self.loop.time())
        if not self._feeds:
            await self._stirred.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._poll_at):
                await self._stirred.wait()

    async def _round(self) -> None:
        self._stirred.clear()
        nudged, self._nudged = self._nudged, set()
        now = self.loop.time()
        self._tick_at = now + TICK_S
        everything = now >= self._poll_at
        if everything:
            self._poll_at = now + POLL_S
        feeds = list(self._feeds.values())
        for feed in feeds:
            if isinstance(feed, SnapshotFeed) and feed.is_due(now, nudged):
                feed.taken_by = self.spawn(self._take(feed, now))
        topics = [feed for feed in feeds if isinstance(feed, TopicFeed)]
        due = [f for f in topics if everything or not f.ready or f.topic in nudged]
        if due:
            await self._look_at(due)

    async def _look_at(self, feeds: Sequence[TopicFeed]) -> None:
        try:
            looks = await self.loop.run_in_executor(self._live, _on_store, lambda: _looks(feeds))
        except STORE_IS_AWAY as error:
            self._note_store(away=error)
            return
        self._note_store(away=None)
        for feed, look in zip(feeds, looks, strict=True):
            if look is None:
                feed.remove()
            elif isinstance(look, Exception):
                self._fail(feed, look)
            else:
                feed.advance(*look)

    async def _take(self, feed: SnapshotFeed, now: float) -> None:
        feed.begin(now)
        try:
            body = await self.read(feed.take)
        except STORE_IS_AWAY as error:
            feed.taking = False
            self._note_store(away=error)
        except Exception as error:  # noqa: BLE001 - the edge of the thread: followers raise it
            self._fail(feed, error)
        else:
            feed.advance(body)

    def _fail(self, feed: Feed, error: Exception) -> None:
        """Who follows gets the error and comes back; by then there is a new feed."""
        for key in [key for key, known in self._feeds.items() if known is feed]:
            del self._feeds[key]
        feed.fail(error)

    def _note_store(self, *, away: Exception | None) -> None:
        if away and not self._store_away:
            logger.warning("Streams wait for the store: %s", type(away).__name__)
        self._store_away = away is not None

    def _end(self) -> None:
        self.over = True
        self._wake_all()

    def is_ping_due(self, sent_at: float) -> bool:
        """Whether a follower that sent its last frame then was silent for PING_S."""
        return self.loop.time() - sent_at >= PING_S

    def _wake_silent(self) -> None:
        for feed in self._feeds.values():
            feed.wake(silent_since=self.loop.time() - PING_S)

    def _wake_all(self) -> None:
        for feed in self._feeds.values():
            feed.wake()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        # A context of its own: a task made inside a request would inherit the request's thread.
        task = self.loop.create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._settle)
        return task

    def _settle(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error and not isinstance(error, STORE_IS_AWAY):
            logger.error("A reader of streams failed", exc_info=error)


def _close_connection() -> None:
    connection.close()


def _on_store(work: Callable[[], T]) -> T:
    release_stale_connection()
    return work()


def _looks(feeds: Sequence[TopicFeed]) -> list[Look]:
    """On a thread: where each topic ends and what is new in it; None for a deleted one."""
    ends = selectors.ends(feed.topic for feed in feeds)
    return [_look(feed, ends.get(feed.topic)) for feed in feeds]


def _look(feed: TopicFeed, end: tuple[int, str] | None) -> Look:
    if end is None:
        return None
    try:
        return (*end, feed.read_new(end[0]))
    except STORE_IS_AWAY:
        raise
    except Exception as error:  # noqa: BLE001 - one feed's fault must not end the others
        return error


_hub: Hub | None = None


def hub_here() -> Hub:
    """The hub of this process, made and started when there is none on the running loop."""
    global _hub  # noqa: PLW0603 - one a process
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
