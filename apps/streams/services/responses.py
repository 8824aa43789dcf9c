"""HTTP responses that stream: the limit per user, the credential check, the drain."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable
from contextlib import ExitStack, aclosing
from functools import partial
from typing import Final

from asgiref.sync import SyncToAsync
from django.http import HttpRequest, StreamingHttpResponse

from apps.observability.api import metrics
from apps.operations.api import LifespanPart
from apps.streams import conf
from apps.streams.domain.sse_frames import resume_after
from apps.streams.services.hub import STORE_IS_AWAY, Hub, process_hub, stop_hub
from apps.streams.services.stream_leases import process_leases
from kernel.errors import PlatformError

ANSWER_S: Final = 1.0
HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
Recheck = Callable[[], bool]
# Each stream sends a frame at least every 15 s (a ping). It checks the credential at the first
# frame after RECHECK_S and accepts an answer of age SHARED_S: less than the allowed 30 s together.
RECHECK_S: Final = 10.0
SHARED_S: Final = 4.0
DRAIN_S: Final = 9.0  # of the 10 s that streams get
RELEASE_S: Final = 1.0


class TooManyStreams(PlatformError):
    """A user has STREAM_MAX_PER_USER streams open."""

    code = "too_many_streams"


def _too_many() -> TooManyStreams:
    limit = conf.streams_per_user()
    return TooManyStreams(f"a user may have at most {limit} open streams; close one first")


def _do_nothing() -> None:
    pass


class OpenStreams:
    """Counts the open streams of each user in this process."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may close a stream at any moment, also within `open`.
        self._lock = threading.RLock()
        self._by_user: Counter[str] = Counter()
        self._on_empty: Callable[[], object] = _do_nothing

    def open(self, user_key: str, stream: str) -> Callable[[], None]:
        """Count a stream and return the function that ends it; raise TooManyStreams."""
        with self._lock:
            if self._by_user[user_key] >= conf.streams_per_user():
                raise _too_many()
            self._by_user[user_key] += 1
        metrics.change("partita.streams.open", 1, stream=stream)
        held = [stream]

        def close() -> None:
            with self._lock:
                if not held:
                    return
                held.clear()
                self._by_user[user_key] -= 1
                if not self._by_user[user_key]:
                    del self._by_user[user_key]
            metrics.change("partita.streams.open", -1, stream=stream)
            if not self.count():
                self._on_empty()

        return close

    def count(self) -> int:
        return self._by_user.total()

    async def wait_until_empty(self) -> None:
        """Wait until no stream is open."""
        loop, emptied = asyncio.get_running_loop(), asyncio.Event()
        self._on_empty = lambda: loop.call_soon_threadsafe(emptied.set)
        try:
            while self.count():
                await emptied.wait()
                emptied.clear()
        finally:
            self._on_empty = _do_nothing


open_streams = OpenStreams()


class Rechecks:
    """Checks credentials of open streams, once for all streams that share one."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, tuple[float, asyncio.Future[bool]]] = {}

    async def holds(self, hub: Hub, recheck: Recheck) -> bool:
        """Return whether the credential is valid; True while the store is unavailable.

        Nothing new is sent then, and a later frame repeats the check.
        """
        try:
            return await asyncio.shield(self._answer(hub, recheck))
        except STORE_IS_AWAY:
            return True

    def _answer(self, hub: Hub, recheck: Recheck) -> asyncio.Future[bool]:
        now, credential = hub.loop.time(), _credential(recheck)
        for old, (asked_at, _) in tuple(self._answers.items()):
            if asked_at >= now - SHARED_S:
                break
            del self._answers[old]
        _, answer = self._answers.get(credential, (0.0, None))
        if answer is None or answer.get_loop() is not hub.loop:
            answer = hub.spawn(hub.read(recheck))
            self._answers[credential] = (now, answer)
        return answer


def _credential(recheck: Recheck) -> Hashable:
    """Return a key that is equal for partials of one function with equal arguments."""
    if isinstance(recheck, partial) and not recheck.keywords:
        return recheck.func, recheck.args
    return recheck


rechecks = Rechecks()


class EventStream(StreamingHttpResponse):
    """Passes frames to the server directly: Django's wrapper costs two thread hops per frame."""

    def __init__(self, frames: AsyncGenerator[bytes], release: Callable[[], None]) -> None:
        super().__init__(frames, content_type="text/event-stream", headers=HEADERS)
        self._release = release
        weakref.finalize(self, release)  # a response that was never sent is never closed

    def __aiter__(self) -> AsyncIterator[bytes]:
        frames: AsyncIterator[bytes] = vars(self)["_iterator"]
        # A response to HEAD has other content; the compressed frames are a generator as well.
        return frames if isinstance(frames, AsyncGenerator) else super().__aiter__()

    def close(self) -> None:
        super().close()
        self._release()


async def sse_response(
    request: HttpRequest,
    frames: AsyncGenerator[bytes],
    *,
    user_key: str,
    recheck: Recheck | None = None,
    stream: str = "other",
) -> EventStream:
    """Return a response that streams `frames`; raise TooManyStreams before the first byte.

    `recheck()` returns whether the credential is still valid. It is called at least every 30 s, on
    a thread, and False closes the stream without `end`. Streams whose rechecks are equal, or
    partials of equal parts, share the result. `stream` is the name in metrics.
    """
    release = await _acquire(user_key, stream)
    return EventStream(_guard(frames, recheck, release), release)


async def guard_frames(
    frames: AsyncGenerator[bytes], *, user_key: str, recheck: Recheck, stream: str
) -> tuple[AsyncGenerator[bytes], Callable[[], None]]:
    """Return `frames` under the rules of `sse_response`, and what releases the stream's place."""
    release = await _acquire(user_key, stream)
    return _guard(frames, recheck, release), release


async def _acquire(user_key: str, stream: str) -> Callable[[], None]:
    """Count the stream in this process and, with Redis, in all processes; raise TooManyStreams.

    Return the function that releases both. A Redis that does not answer refuses no stream.
    """
    with ExitStack() as taken:
        taken.callback(open_streams.open(user_key, stream))
        if leases := process_leases():
            name, answer = leases.acquire(user_key, limit=conf.streams_per_user())
            taken.callback(leases.release, name)
            free = asyncio.wrap_future(answer)
            if (await asyncio.wait([free], timeout=ANSWER_S))[0] and not free.result():
                raise _too_many()
        return taken.pop_all().close


async def _guard(
    frames: AsyncGenerator[bytes], recheck: Recheck | None, release: Callable[[], None]
) -> AsyncGenerator[bytes]:
    _end_request_thread()
    hub = process_hub()
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
        release()


def _end_request_thread() -> None:
    """End the request's thread, which would idle as long as the stream; `close` starts another."""
    context = SyncToAsync.thread_sensitive_context.get(None)
    executor = SyncToAsync.context_to_thread_executor.pop(context, None) if context else None
    if executor:
        executor.shutdown(wait=False)


def resume_point(request: HttpRequest) -> int:
    """Return the number after which the client resumes; raise InvalidInput for a bad `since`."""
    return resume_after(
        since=request.GET.get("since"), last_event_id=request.headers.get("Last-Event-ID")
    )


class StreamsPart(LifespanPart):
    """Starts the hub with a server, and drains it before the server stops."""

    async def start(self) -> None:
        process_hub()

    async def drain(self) -> None:
        """End streams after a whole record; the server closes those that do not read it in time."""
        process_hub().drain()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(open_streams.wait_until_empty(), DRAIN_S)

    async def stop(self) -> None:
        await stop_hub()
        if leases := process_leases():
            await asyncio.to_thread(leases.flush, timeout_s=RELEASE_S)
