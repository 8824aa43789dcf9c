"""Followers: the frames of a topic, replayed and then live, or the snapshots of a view."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection

from apps.observability.api import metrics
from apps.streams import selectors
from apps.streams.domain.sse_frames import CONNECTED, PING, RecordPage, end, gap
from apps.streams.services.feeds import SNAPSHOT_POLL_S, Envelope, Take, TopicFeed
from apps.streams.services.hub import Hub, process_hub


async def follow(
    topic: str, *, after: int, member: str, envelope: Envelope, sources: Collection[str] = ()
) -> AsyncGenerator[bytes]:
    """Yield the frame of every record after `after`, once and in order, until the topic closes.

    A record's data is `{"id":n,<envelope's fields>,"<member>":<record>}`. `envelope(topic)` is
    called on a thread, once for each page that followers share; it returns None when the topic's
    subject is gone. With `sources`, only their records are sent. An `after` above the last number
    counts as the last. The stream ends without `end` when the process drains.
    """
    hub = process_hub()
    with hub.topic(topic, member, envelope) as feed:
        yield CONNECTED
        follower = _Follower(hub, feed, frozenset(sources), after=after)
        while frames := await follower.frames():
            yield frames


class _Follower:
    """Reads a feed from its shared pages while it keeps up, else from the store."""

    def __init__(self, hub: Hub, feed: TopicFeed, sources: frozenset[str], *, after: int) -> None:
        self._hub = hub
        self._feed = feed
        self._sources = sources
        self._cursor = after
        self._sent_at = hub.loop.time()
        self._started = False
        self._caught_up = False
        self._ended = False

    async def frames(self) -> bytes:
        """Wait for the next frames and return them; empty when the stream is over."""
        while not (self._hub.over or self._ended):
            if frames := self._pending() or await self._next():
                self._sent_at = self._hub.loop.time()
                return frames
        return b""

    def _pending(self) -> bytes:
        if self._hub.is_ping_due(self._sent_at):
            return PING
        if not self._started:
            return b""
        if self._cursor < self._feed.head:
            if not self._feed.removed:
                return b""
            first, self._cursor = self._cursor + 1, self._feed.head
            return gap(first, self._cursor)
        self._ended = self._feed.removed or bool(self._feed.closed)
        return end(self._feed.closed, self._feed.head) if self._feed.closed else b""

    async def _next(self) -> bytes:
        if self._ended:
            return b""
        if not self._feed.ready or (self._started and self._cursor >= self._feed.head):
            self._caught_up = self._started
            await self._feed.wait_for_change(sent_at=self._sent_at)
            return b""
        if not self._started:
            await self._start()
            return b""
        page = self._feed.page_beyond(self._cursor) or await self._from_store()
        if page is None:
            return b""
        self._cursor = page.last
        return page.frames(self._sources)

    async def _from_store(self) -> RecordPage | None:
        if self._caught_up:
            self._caught_up = False
            metrics.count("partita.stream.resyncs", stream=self._feed.kind)
        return await self._hub.replay(self._feed, self._cursor, self._sources)

    async def _start(self) -> None:
        """Limit the cursor to the end of the topic in the store, which may be ahead of the feed."""
        topic = self._feed.topic
        if self._cursor > self._feed.head:
            ends = await self._hub.read(lambda: selectors.ends([topic]))
            self._cursor = min(self._cursor, ends[topic][0]) if topic in ends else self._feed.head
        self._started = True


async def snapshot_stream(
    nudge_name: str,
    *,
    scope: str,
    take: Take,
    poll_s: float = SNAPSHOT_POLL_S,
    numbered: bool = False,
) -> AsyncGenerator[bytes]:
    """Yield the newest `take()` (JSON bytes on one line), now and after each nudge that changes it.

    Yield at most four per second and drop older ones; ids increase over processes and restarts.
    All streams of one `nudge_name` and `scope` share one call, on a thread, at least every
    `poll_s`. Only a drain ends it, or `take` when it raises ViewOver. With `numbered`, each object
    begins with its `id`.
    """
    hub = process_hub()
    with hub.snapshots(nudge_name, scope, take, poll_s, numbered=numbered) as feed:
        yield CONNECTED
        seen, sent_at = 0, hub.loop.time()
        while not hub.over:
            if feed.version > seen:
                seen, sent_at = feed.version, hub.loop.time()
                yield feed.frame
            elif feed.over:
                yield feed.over
                return
            elif hub.is_ping_due(sent_at):
                sent_at = hub.loop.time()
                yield PING
            else:
                await feed.wait_for_change(sent_at=sent_at)
