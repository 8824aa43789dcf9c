"""Redis as mocks use it: scripts in one round trip, and left alone while it is away.

Its library is imported with the first client: it takes longer than any other.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from kernel.redis_breaker import RedisBreaker, open_async_redis, open_redis

if TYPE_CHECKING:
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis
    from redis.commands.core import AsyncScript

CONNECT_S: Final = 0.5
ANSWER_S: Final = 1.0  # a busy process must not take a living Redis for dead: state would divide
_CONNECTIONS: Final = 16  # of an event loop


class _Client:
    """The connections of an event loop."""

    def __init__(self, redis: AsyncRedis) -> None:
        self.redis = redis
        self.room = asyncio.Semaphore(_CONNECTIONS)
        self._scripts: dict[str, AsyncScript] = {}

    def script(self, text: str) -> AsyncScript:
        found = self._scripts.get(text)
        if found is None:
            found = self._scripts[text] = self.redis.register_script(text)
        return found


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
        self._of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Client] = WeakKeyDictionary()

    def key(self, *parts: str) -> str:
        return ":".join((self._prefix, "mocks", *parts))

    @property
    def is_away(self) -> bool:
        return self._breaker.is_away

    @property
    def returns(self) -> int:
        """How often Redis has come back."""
        return self._breaker.returns

    async def run(self, script: str, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        """Run a Lua script on the running loop; raise RedisUnavailable, during a pause at once."""
        with self._breaker.call():
            client = self._of_loop()
            async with client.room:
                return await client.script(script)(keys=keys, args=arguments)

    def run_from_thread(
        self, script: str, keys: Sequence[str], arguments: Sequence[str | int | bytes]
    ) -> Any:
        """Run a Lua script and wait; raise as `run`."""
        with self._breaker.call():
            return self._of_threads().register_script(script)(keys=keys, args=arguments)

    async def leave_loop(self) -> None:
        """Close the connections of the running loop."""
        found = self._of_loops.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found.redis.aclose()

    async def close(self) -> None:
        """Close the connections of the running loop and of threads."""
        await self.leave_loop()
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _of_loop(self) -> _Client:
        loop = asyncio.get_running_loop()
        found = self._of_loops.get(loop)
        if found is None:
            client = open_async_redis(self._url, connect_s=CONNECT_S, answer_s=ANSWER_S)
            found = self._of_loops[loop] = _Client(client)
        return found

    def _of_threads(self) -> Redis:
        with self._lock:
            if self._client is None:
                self._client = open_redis(self._url, connect_s=CONNECT_S, answer_s=ANSWER_S)
            return self._client
