"""What is followed: shared pages of one topic, or the newest snapshot of one view.

Feeds live on the hub's event loop; only the two methods that say so run on its threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import Any, Final

from apps.streams.domain.frames import MOST_BYTES, MOST_RECORDS, Page, Wrapping, snapshot
from apps.streams.services.pages import read_page

Envelope = Callable[[str], Mapping[str, Any] | None]
Take = Callable[[], bytes]

SNAPSHOT_PAUSE_S: Final = 0.25  # at most four a second
SNAPSHOT_POLL_S: Final = 1.0


class Feed:
    """Followers wait here until something happened; they then look at the feed's state."""

    def __init__(self, nudge_name: str) -> None:
        self.nudge_name = nudge_name
        self.followers = 0
        self.unlisten: Callable[[], None] = lambda: None
        self.error: Exception | None = None  # a fault in reading: every follower raises it
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    async def changed(self, *, sent_at: float) -> None:
        """Wait for a change, the end of the hub, or a ping that is due. Raises the feed's error.

        `sent_at`: when this follower last sent something, on the clock of the loop.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((sent_at, future))
        await future
        if self.error:
            raise self.error

    def wake(self, *, silent_since: float = inf) -> None:
        """Wake the followers that have sent nothing after `silent_since`; without it all."""
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
    """The live end of a topic: its last pages, each framed once, for followers that keep up.

    A follower is a cursor over them. One that lies behind by more than the pages kept (1,000
    records, 1 MiB) reads from the store until it has caught up: nothing is dropped for it.
    """

    def __init__(self, topic: str, member: str, envelope: Envelope) -> None:
        super().__init__(topic)
        self.topic = topic
        self.kind = topic.partition(":")[0]
        self.ready = False  # looked at once at least
        self.head = 0  # number of the last committed record known here
        self.closed = ""  # status of the `end` frame
        self.removed = False
        self.replays: dict[tuple[int, frozenset[str]], asyncio.Future[Page | None]] = {}
        self._member = member
        self._envelope = envelope
        self._pages: dict[int, Page] = {}  # by `after`, oldest first
        self._bytes = 0

    def page_beyond(self, cursor: int) -> Page | None:
        return self._pages.get(cursor)

    def read(self, *, after: int, upto: int, sources: frozenset[str] = frozenset()) -> Page | None:
        """On a thread: frame what the store holds; None when what it tells of is gone."""
        fields = self._envelope(self.topic)
        if fields is None:
            return None
        wrapping = Wrapping(self._member, fields)
        return read_page(self.topic, wrapping, after=after, upto=upto, sources=sources)

    def read_new(self, head: int) -> Page | None:
        """On a thread: what followers that keep up need next; None when that is nothing."""
        if self.ready and 0 < head - self.head <= MOST_RECORDS:
            return self.read(after=self.head, upto=head)
        return None

    def advance(self, head: int, closed: str, page: Page | None) -> None:
        """The topic now ends at `head`; `page` follows the last one kept."""
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

    def _keep(self, page: Page) -> None:
        self._pages[page.after] = page
        self._bytes += page.size
        while self._bytes > MOST_BYTES or page.last - next(iter(self._pages)) > MOST_RECORDS:
            if len(self._pages) == 1:
                break
            self._bytes -= self._pages.pop(next(iter(self._pages))).size


class SnapshotFeed(Feed):
    """The newest state of one view in one scope; older ones are forgotten unsent."""

    def __init__(self, nudge_name: str, take: Take) -> None:
        super().__init__(nudge_name)
        self.version = 0
        self.frame = b""
        self.taking = False
        self.taken_by: asyncio.Task[None] | None = None
        self.take = take  # on a thread
        self._taken_at = 0.0
        self._nudged = True
        self._body = b""

    def is_due(self, now: float, nudged: Collection[str]) -> bool:
        self._nudged |= self.nudge_name in nudged
        pause_s = SNAPSHOT_PAUSE_S if self._nudged else SNAPSHOT_POLL_S
        return not self.taking and now - self._taken_at >= pause_s

    def begin(self, now: float) -> None:
        self.taking, self._nudged, self._taken_at = True, False, now

    def advance(self, body: bytes) -> None:
        """Versions are milliseconds of the clock: they increase over processes and restarts."""
        self.taking = False
        if body == self._body:
            return
        self._body = body
        self.version = max(self.version + 1, int(time.time() * 1000))
        self.frame = snapshot(self.version, body)
        self.wake()
