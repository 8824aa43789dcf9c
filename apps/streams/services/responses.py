"""The HTTP answer around a stream: headers, the limit per user, the recheck, the drain."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import ExitStack, aclosing
from typing import Final

from asgiref.sync import SyncToAsync
from django.http import HttpRequest, StreamingHttpResponse

from apps.streams import conf
from apps.streams.domain.resume import resume_after
from apps.streams.services.hub import hub_here
from apps.streams.services.rechecks import RECHECK_S, Recheck, rechecks
from apps.streams.services.stream_leases import leases_here
from apps.system.api import metrics
from kernel.errors import PlatformError

ANSWER_S: Final = 1.0
HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class TooManyStreams(PlatformError):
    """A user has STREAM_MAX_PER_USER streams open."""

    code = "too_many_streams"


def _too_many() -> TooManyStreams:
    return TooManyStreams(f"at most {conf.streams_per_user()} streams a user; close one")


def _do_nothing() -> None:
    pass


class OpenStreams:
    """How many streams each user has open in this process."""

    def __init__(self) -> None:
        # The garbage collector gives places back too, at any moment: within itself here.
        self._lock = threading.RLock()
        self._by_user: Counter[str] = Counter()
        self._on_empty: Callable[[], object] = _do_nothing

    def open(self, user_key: str, stream: str) -> Callable[[], None]:
        """Returns the function that gives the place back, once. Raises TooManyStreams."""
        with self._lock:
            if self._by_user[user_key] >= conf.streams_per_user():
                raise _too_many()
            self._by_user[user_key] += 1
        metrics.change("partita.streams.open", 1, stream=stream)
        held = [user_key]

        def close() -> None:
            with self._lock:
                if not held:
                    return
                self._leave(held.pop())
            metrics.change("partita.streams.open", -1, stream=stream)
            if not self.count():
                self._on_empty()

        return close

    def _leave(self, user_key: str) -> None:
        self._by_user[user_key] -= 1
        if not self._by_user[user_key]:
            del self._by_user[user_key]

    def count(self) -> int:
        return self._by_user.total()

    async def none_left(self) -> None:
        """Returns once no stream is open; cancel it to wait no longer."""
        loop, emptied = asyncio.get_running_loop(), asyncio.Event()
        self._on_empty = lambda: loop.call_soon_threadsafe(emptied.set)
        try:
            while self.count():
                await emptied.wait()
                emptied.clear()
        finally:
            self._on_empty = _do_nothing


open_streams = OpenStreams()


class EventStream(StreamingHttpResponse):
    """Hands its frames to the server as they are: Django's own wrapping costs two hops each."""

    def __init__(self, frames: AsyncGenerator[bytes], give_back: Callable[[], None]) -> None:
        super().__init__(frames, content_type="text/event-stream", headers=HEADERS)
        self._frames = frames
        self._give_back = give_back
        weakref.finalize(self, give_back)  # an answer that was never sent is never closed

    def __aiter__(self) -> AsyncIterator[bytes]:
        frames: AsyncIterator[bytes] = vars(self)["_iterator"]
        # Another content than ours, such as none for HEAD, goes Django's way.
        return frames if frames is self._frames else super().__aiter__()

    def close(self) -> None:
        super().close()
        self._give_back()


async def sse_response(
    request: HttpRequest,
    frames: AsyncGenerator[bytes],
    *,
    user_key: str,
    recheck: Recheck | None = None,
    stream: str = "other",
) -> EventStream:
    """Answer with `frames`. Raises TooManyStreams, before the first byte.

    `recheck()` says whether the credential still holds; it is asked within each 30 s, on a thread,
    and False closes the stream without `end`. Streams whose rechecks are equal, or are partials
    of equal parts, share the answer. `stream` names it in metrics.
    """
    give_back = await _place_for(user_key, stream)
    return EventStream(_guarded(frames, recheck, give_back), give_back)


async def _place_for(user_key: str, stream: str) -> Callable[[], None]:
    """A place in this process, then one of all processes when there is a Redis.

    Returns what gives both back. Raises TooManyStreams. A Redis without an answer refuses nobody.
    """
    with ExitStack() as taken:
        taken.callback(open_streams.open(user_key, stream))
        if leases := leases_here():
            name, answer = leases.take(user_key, most=conf.streams_per_user())
            taken.callback(leases.give_back, name)
            free = asyncio.wrap_future(answer)
            if (await asyncio.wait([free], timeout=ANSWER_S))[0] and not free.result():
                raise _too_many()
        return taken.pop_all().close


async def _guarded(
    frames: AsyncGenerator[bytes], recheck: Recheck | None, give_back: Callable[[], None]
) -> AsyncGenerator[bytes]:
    _let_thread_go()
    hub = hub_here()
    due = hub.loop.time() + RECHECK_S
    try:
        async with aclosing(frames):
            async for frame in frames:
                if recheck and hub.loop.time() >= due:
                    if not await rechecks.holds(hub, recheck):
                        return
                    due = hub.loop.time() + RECHECK_S
                yield frame
    finally:
        give_back()


def _let_thread_go() -> None:
    """End the request's own thread, which would idle as long as the stream; its close gets one."""
    context = SyncToAsync.thread_sensitive_context.get(None)
    executor = SyncToAsync.context_to_thread_executor.pop(context, None) if context else None
    if executor:
        executor.shutdown(wait=False)


def resume_point(request: HttpRequest) -> int:
    """Where the client wants to go on: the larger of `since` and `Last-Event-ID`, else 0.

    Raises InvalidInput for a `since` that is not a whole number.
    """
    return resume_after(
        since=request.GET.get("since"), last_event_id=request.headers.get("Last-Event-ID")
    )
