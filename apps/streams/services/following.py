"""Streams as frames: a topic replayed and then live, or the newest snapshot of a view."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection

from apps.streams import selectors
from apps.streams.domain.frames import CONNECTED, PING, Page, end, gap
from apps.streams.services.feeds import Envelope, Take, TopicFeed
from apps.streams.services.hub import Hub, hub_here
from apps.system.api import metrics


async def follow(
    topic: str, *, after: int, member: str, envelope: Envelope, sources: Collection[str] = ()
) -> AsyncGenerator[bytes]:
    """Frames of every record beyond `after`, once and in order, until the topic is closed.

    A record's data is `{"id":n,<envelope's fields>,"<member>":<record>}`. `envelope(topic)` is
    called once for each page that all followers share, on a thread, never on the loop; it
    answers None when what the topic tells of is gone. With `sources` only theirs. `after` beyond
    the last number counts as the last. Ends without `end` when the process drains.
    """
    hub = hub_here()
    with hub.topic(topic, member, envelope) as feed:
        yield CONNECTED
        follower = _Follower(hub, feed, frozenset(sources))
        await follower.begin(after)
        while frames := await follower.frames():
            yield frames


class _Follower:
    """A cursor over a feed: from the shared pages while it keeps up, else from the store."""

    def __init__(self, hub: Hub, feed: TopicFeed, sources: frozenset[str]) -> None:
        self._hub = hub
        self._feed = feed
        self._sources = sources
        self._cursor = 0
        self._pings = hub.pings
        self._caught_up = False
        self._ended = False

    async def begin(self, after: int) -> None:
        while not (self._feed.ready or self._hub.over):
            await self._feed.changed()
        if after > self._feed.head:
            after = await self._clamped(after)
        self._cursor = after

    async def frames(self) -> bytes:
        """What to send next, waiting for it; empty when the stream is over."""
        while not (self._hub.over or self._ended):
            if frames := self._due() or await self._more():
                return frames
        return b""

    def _due(self) -> bytes:
        if self._pings != self._hub.pings:
            self._pings = self._hub.pings
            return PING
        if self._cursor < self._feed.head:
            return self._gone() if self._feed.removed else b""
        self._ended = self._feed.removed or bool(self._feed.closed)
        return end(self._feed.closed, self._feed.head) if self._feed.closed else b""

    def _gone(self) -> bytes:
        first, self._cursor = self._cursor + 1, self._feed.head
        return gap(first, self._cursor)

    async def _more(self) -> bytes:
        if self._ended:
            return b""
        if self._cursor >= self._feed.head:
            self._caught_up = True
            await self._feed.changed()
            return b""
        page = self._feed.page_beyond(self._cursor) or await self._from_store()
        if page is None:
            return b""
        self._cursor = page.last
        return page.frames(self._sources)

    async def _from_store(self) -> Page | None:
        if self._caught_up:
            self._caught_up = False
            metrics.count("partita.stream.resyncs", stream=self._feed.kind)
        return await self._hub.replay(self._feed, self._cursor, self._sources)

    async def _clamped(self, after: int) -> int:
        """Asks the store: another process may have sent what this one has not looked at yet."""
        topic = self._feed.topic
        ends = await self._hub.read(lambda: selectors.ends([topic]))
        return min(after, ends[topic][0]) if topic in ends else self._feed.head


async def snapshot_stream(nudge_name: str, *, scope: str, take: Take) -> AsyncGenerator[bytes]:
    """The newest `take()` (JSON bytes on one line) now and after each nudge that changed it.

    At most four a second, older ones unsent; ids increase over processes and restarts. All
    streams of one `nudge_name` and `scope` share one call, made on a thread. Never ends but by
    drain.
    """
    hub = hub_here()
    with hub.snapshots(nudge_name, scope, take) as feed:
        yield CONNECTED
        seen, pings = 0, hub.pings
        while not hub.over:
            if hub.pings != pings:
                pings = hub.pings
                yield PING
            elif feed.version > seen:
                seen = feed.version
                yield feed.frame
            else:
                await feed.changed()
