"""Redis as mocks use it: scripts in one round trip, and left alone while it is away.

Its library is imported with the first client: it takes longer than any other.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from kernel.redis_breaker import RedisBreaker, RedisUnavailable, open_async_pool, open_redis
from mocks.redis_pipe import CommandRefused, NoSuchScript, RedisPipe, Word

if TYPE_CHECKING:
    from redis import Redis

CONNECT_S: Final = 0.5
ANSWER_S: Final = 1.0  # a busy process must not take a living Redis for dead: state would divide


class RedisLink:
    """Runs scripts from event loops (`run`) and threads (`run_from_thread`)."""

    def __init__(
        self, url: str, *, prefix: str = "partita", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._url = url
        self._prefix = prefix
        self._breaker = RedisBreaker(
            while_away="mocks keep state and journal in each process",
            once_back="processes share the state of mocks again",
            clock=clock,
        )
        self._lock = threading.Lock()
        self._client: Redis | None = None
        self._of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, RedisPipe] = (
            WeakKeyDictionary()
        )

    def key(self, *parts: str) -> str:
        return ":".join((self._prefix, "mocks", *parts))

    @property
    def is_away(self) -> bool:
        return self._breaker.is_away

    @property
    def returns(self) -> int:
        """How often Redis has come back."""
        return self._breaker.returns

    async def run(self, script: str, keys: Sequence[str], arguments: Sequence[Word]) -> Any:
        """Run a Lua script on the running loop; raise RedisUnavailable, during a pause at once.

        Its answer is bytes, an int or None, and not large: others wait behind it.
        """
        self._breaker.admit()
        pipe, words = self._of_loop(), (len(keys), *keys, *arguments)
        try:
            try:
                answer = await pipe.ask("EVALSHA", _digest(script), *words)
            except NoSuchScript:
                answer = await pipe.ask("EVAL", script, *words)
        except (CommandRefused, OSError) as error:
            self._breaker.record_failure(error)
            raise RedisUnavailable from error
        self._breaker.record_answer()
        return answer

    def run_from_thread(
        self, script: str, keys: Sequence[str], arguments: Sequence[str | int | bytes]
    ) -> Any:
        """Run a Lua script and wait; raise as `run`."""
        with self._breaker.call():
            return self._of_threads().register_script(script)(keys=keys, args=arguments)

    async def leave_loop(self) -> None:
        """Close the connection of the running loop."""
        found = self._of_loops.pop(asyncio.get_running_loop(), None)
        if found is not None:
            found.close()

    async def close(self) -> None:
        """Close the connections of the running loop and of threads."""
        await self.leave_loop()
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _of_loop(self) -> RedisPipe:
        loop = asyncio.get_running_loop()
        found = self._of_loops.get(loop)
        if found is None:
            pool = open_async_pool(self._url, connect_s=CONNECT_S, answer_s=ANSWER_S)
            found = RedisPipe(pool, answer_s=ANSWER_S)
            self._of_loops[loop] = found
        return found

    def _of_threads(self) -> Redis:
        with self._lock:
            if self._client is None:
                self._client = open_redis(self._url, connect_s=CONNECT_S, answer_s=ANSWER_S)
            return self._client


@lru_cache(maxsize=64)
def _digest(script: str) -> str:
    return hashlib.sha1(script.encode()).hexdigest()  # noqa: S324 - as Redis names them
