"""Feeds: the shared pages of one topic, or the newest snapshot of one view.

Feeds belong to the hub's event loop. Only `read`, `read_new` and `take` run on its threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import Any, Final

from apps.streams import selectors
from apps.streams.domain.chunks import Chunk
from apps.streams.domain.sse_frames import (
    MOST_BYTES,
    MOST_RECORDS,
    RecordPage,
    Wrapping,
    end,
    page_of,
    snapshot,
)

Envelope = Callable[[str], Mapping[str, Any] | None]
Take = Callable[[], bytes]

SNAPSHOT_PAUSE_S: Final = 0.25  # at most four a second
SNAPSHOT_POLL_S: Final = 1.0
_MOST_SPANS: Final = 512  # chunks considered for one page of selected sources


class Feed:
    """Wakes the followers that wait for a change of its state."""

    def __init__(self, nudge_name: str) -> None:
        self.nudge_name = nudge_name
        self.followers = 0
        self.unlisten: Callable[[], None] = lambda: None
        self.error: Exception | None = None  # of a read: every follower raises it
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    async def wait_for_change(self, *, sent_at: float) -> None:
        """Wait for a change, the end of the hub, or a due ping; raise the feed's error.

        `sent_at` is the time of the follower's last frame on the clock of the loop.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((sent_at, future))
        await future
        if self.error:
            raise self.error

    def wake(self, *, silent_since: float = inf) -> None:
        """Wake the followers that sent nothing after `silent_since`, by default all."""
        waiting, self._waiting = self._waiting, []
        for sent_at, future in waiting:
            if sent_at > silent_since:
                self._waiting.append((sent_at, future))
            elif not future.done():
                future.set_result(None)

    def fail(self, error: Exception) -> None:
        self.error = error
        self.wake()


class TopicFeed(Feed):
    """The last pages of a topic, each encoded once for all followers that keep up.

    A follower that is further behind than the kept pages (1,000 records, 1 MiB) reads from the
    store until it has caught up; it loses nothing.
    """

    def __init__(self, topic: str, member: str, envelope: Envelope) -> None:
        super().__init__(topic)
        self.topic = topic
        self.kind = topic.partition(":")[0]
        self.ready = False  # polled at least once
        self.head = 0  # number of the last committed record known here
        self.closed = ""  # status of the `end` frame
        self.removed = False
        self.replays: dict[tuple[int, frozenset[str]], asyncio.Future[RecordPage | None]] = {}
        self._member = member
        self._envelope = envelope
        self._pages: dict[int, RecordPage] = {}  # by `after`, oldest first
        self._bytes = 0

    def page_beyond(self, cursor: int) -> RecordPage | None:
        return self._pages.get(cursor)

    def read(
        self, *, after: int, upto: int, sources: frozenset[str] = frozenset()
    ) -> RecordPage | None:
        """Read a page from the store, on a thread; None when the topic's subject is gone."""
        fields = self._envelope(self.topic)
        if fields is None:
            return None
        wrapping = Wrapping(self._member, fields)
        return read_page(self.topic, wrapping, after=after, upto=upto, sources=sources)

    def read_new(self, head: int) -> RecordPage | None:
        """Read the page that follows the kept ones, on a thread; None without one."""
        if self.ready and 0 < head - self.head <= MOST_RECORDS:
            return self.read(after=self.head, upto=head)
        return None

    def advance(self, head: int, closed: str, page: RecordPage | None) -> None:
        """Set the end of the topic to `head` and keep `page`, which follows the kept ones."""
        self.replays.clear()
        if self.ready and (head, closed) == (self.head, self.closed):
            return
        if page:
            self._keep(page)
        else:
            self._pages.clear()
            self._bytes = 0
        self.head, self.closed, self.ready = head, closed, True
        self.wake()

    def remove(self) -> None:
        self.removed = self.ready = True
        self.wake()

    def _keep(self, page: RecordPage) -> None:
        self._pages[page.after] = page
        self._bytes += page.size
        while self._bytes > MOST_BYTES or page.last - next(iter(self._pages)) > MOST_RECORDS:
            if len(self._pages) == 1:
                break
            self._bytes -= self._pages.pop(next(iter(self._pages))).size


class SnapshotFeed(Feed):
    """The newest state of one view in one scope. Older states are dropped unsent."""

    def __init__(
        self, nudge_name: str, take: Take, poll_s: float, *, numbered: bool = False
    ) -> None:
        super().__init__(nudge_name)
        self._numbered = numbered
        self.over = b""  # the last frame, once there will be no other state
        self.version = 0
        self.frame = b""
        self.taking = False
        self.taken_by: asyncio.Task[None] | None = None
        self.take = take  # on a thread
        self._taken_at = 0.0
        self._nudged = True
        self._body = b""
        self._poll_s = poll_s

    def is_due(self, now: float, nudged: Collection[str]) -> bool:
        self._nudged |= self.nudge_name in nudged
        pause_s = SNAPSHOT_PAUSE_S if self._nudged else self._poll_s
        return not (self.taking or self.over) and now - self._taken_at >= pause_s

    def begin(self, now: float) -> None:
        self.taking, self._nudged, self._taken_at = True, False, now

    def advance(self, body: bytes) -> None:
        """Set a new version, in milliseconds of the clock, so that it rises across restarts."""
        self.taking = False
        if body == self._body:
            return
        self._body = body
        self.version = max(self.version + 1, int(time.time() * 1000))
        self.frame = snapshot(self.version, body, numbered=self._numbered)
        self.wake()

    def finish(self, status: str) -> None:
        """End the stream: the subject of the view has ended."""
        self.taking = False
        self.over = end(status, self.version)
        self.wake()


class ViewOver(Exception):
    """Raised by a `take` whose subject has ended; there will be no other state."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


def read_page(
    topic: str, wrapping: Wrapping, *, after: int, upto: int, sources: Collection[str]
) -> RecordPage:
    """Read about 1,000 records or 1 MiB after `after`, none after `upto` (committed, > `after`)."""
    if sources:
        chunks, reach = _chunks_of_sources(topic, after, upto, sources)
    else:
        chunks, reach = _all_chunks(topic, after, upto)
    return page_of(chunks, wrapping, after=after, upto=reach)


def _all_chunks(topic: str, after: int, upto: int) -> tuple[list[Chunk], int]:
    reach = min(upto, after + MOST_RECORDS)
    if chunks := selectors.between(topic, after=after, upto=reach):
        return chunks, reach
    after_hole = selectors.chunk_spans(topic, after=after, upto=upto, limit=1)
    return [], after_hole[0][0] - 1 if after_hole else upto


def _chunks_of_sources(
    topic: str, after: int, upto: int, sources: Collection[str]
) -> tuple[list[Chunk], int]:
    """Return the chunks, those of other sources without records, and the last number read."""
    spans = selectors.chunk_spans(topic, after=after, upto=upto, limit=_MOST_SPANS)
    reach = spans[-1][1] if len(spans) == _MOST_SPANS else upto
    wanted, records = [], 0
    for first, last, source in spans:
        if source in sources:
            wanted.append(last)
            records += last - first + 1
            if records >= MOST_RECORDS:
                reach = last
                break
    found = selectors.chunks_at(topic, wanted) if wanted else {}
    chunks = (
        found.get(last) if source in sources else Chunk(topic, first, last, source, ())
        for first, last, source in spans
        if last <= reach
    )
    return [chunk.cut(after=after, upto=reach) for chunk in chunks if chunk], reach
