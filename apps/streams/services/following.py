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
        follower = _Follower(hub, feed, frozenset(sources), after=after)
        while frames := await follower.frames():
            yield frames


class _Follower:
    """A cursor over a feed: from the shared pages while it keeps up, else from the store."""

    def __init__(self, hub: Hub, feed: TopicFeed, sources: frozenset[str], *, after: int) -> None:
        self._hub = hub
        self._feed = feed
        self._sources = sources
        self._cursor = after
        self._sent_at = hub.loop.time()
        self._begun = False
        self._caught_up = False
        self._ended = False

    async def frames(self) -> bytes:
        """What to send next, waiting for it; empty when the stream is over."""
        while not (self._hub.over or self._ended):
            if frames := self._due() or await self._more():
                self._sent_at = self._hub.loop.time()
                return frames
        return b""

    def _due(self) -> bytes:
        if self._hub.is_ping_due(self._sent_at):
            return PING
        if not self._begun:
            return b""
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
        if not self._feed.ready or (self._begun and self._cursor >= self._feed.head):
            self._caught_up = self._begun
            await self._feed.changed(sent_at=self._sent_at)
            return b""
        if not self._begun:
            await self._begin()
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

    async def _begin(self) -> None:
        """Ask the store: another process may have sent what this one has not looked at yet."""
        topic = self._feed.topic
        if self._cursor > self._feed.head:
            ends = await self._hub.read(lambda: selectors.ends([topic]))
            self._cursor = min(self._cursor, ends[topic][0]) if topic in ends else self._feed.head
        self._begun = True


async def snapshot_stream(nudge_name: str, *, scope: str, take: Take) -> AsyncGenerator[bytes]:
    """The newest `take()` (JSON bytes on one line) now and after each nudge that changed it.

    At most four a second, older ones unsent; ids increase over processes and restarts. All
    streams of one `nudge_name` and `scope` share one call, made on a thread. Never ends but by
    drain.
    """
    hub = hub_here()
    with hub.snapshots(nudge_name, scope, take) as feed:
        yield CONNECTED
        seen, sent_at = 0, hub.loop.time()
        while not hub.over:
            if feed.version > seen:
                seen, sent_at = feed.version, hub.loop.time()
                yield feed.frame
            elif hub.is_ping_due(sent_at):
                sent_at = hub.loop.time()
                yield PING
            else:
                await feed.changed(sent_at=sent_at)
