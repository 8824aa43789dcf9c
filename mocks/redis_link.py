"""Redis as mocks use it: scripts in one round trip, and left alone while it is away.

Its library is imported with the first client: it takes longer than any other.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis
    from redis.commands.core import AsyncScript

CONNECT_S: Final = 0.5
ANSWER_S: Final = 1.0  # a busy process must not take a living Redis for dead: state would divide
PAUSE_S: Final = 3.0
_CONNECTIONS: Final = 16  # of an event loop
logger = logging.getLogger("partita.system")


class RedisAway(Exception):
    """Redis did not answer in time, or did not a moment ago: go on without it."""


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
    """Runs scripts from event loops (`run`) and threads (`run_from_thread`).

    After a call without an answer nobody asks for PAUSE_S; then one caller does, while the others
    still go on without it.
    """

    def __init__(
        self, url: str, *, prefix: str = "partita", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._url = url
        self._prefix = prefix
        self._clock = clock
        self._lock = threading.Lock()
        self._ask_at: float | None = None  # None: it answers
        self.returns = 0  # how often it has come back
        self._client: Redis | None = None
        self._of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Client] = WeakKeyDictionary()

    def key(self, *parts: str) -> str:
        return ":".join((self._prefix, "mocks", *parts))

    @property
    def is_away(self) -> bool:
        return self._ask_at is not None

    async def run(self, script: str, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        """Run a Lua script on the running loop; raise RedisAway, at once while Redis is away."""
        if self._ask_at is not None:
            self._admit()
        from redis import RedisError

        client = self._of_loop()
        try:
            async with client.room:
                answer = await client.script(script)(keys=keys, args=arguments)
        except (RedisError, OSError) as error:
            self._note(away=error)
            raise RedisAway from error
        if self._ask_at is not None:
            self._note(away=None)
        return answer

    def run_from_thread(
        self, script: str, keys: Sequence[str], arguments: Sequence[str | int | bytes]
    ) -> Any:
        """Run a Lua script and wait; raise as `run`."""
        self._admit()
        from redis import RedisError

        try:
            answer = self._of_threads().register_script(script)(keys=keys, args=arguments)
        except (RedisError, OSError) as error:
            self._note(away=error)
            raise RedisAway from error
        self._note(away=None)
        return answer

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
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff

            client = Redis.from_url(
                self._url,
                socket_connect_timeout=CONNECT_S,
                socket_timeout=ANSWER_S,
                retry=Retry(NoBackoff(), 0),
            )
            found = self._of_loops[loop] = _Client(client)
        return found

    def _of_threads(self) -> Redis:
        with self._lock:
            if self._client is None:
                from redis import Redis
                from redis.backoff import NoBackoff
                from redis.retry import Retry

                self._client = Redis.from_url(
                    self._url,
                    socket_connect_timeout=CONNECT_S,
                    socket_timeout=ANSWER_S,
                    retry=Retry(NoBackoff(), 0),
                )
            return self._client

    def _admit(self) -> None:
        with self._lock:
            if self._ask_at is None:
                return
            if self._clock() < self._ask_at:
                raise RedisAway
            self._ask_at = self._clock() + PAUSE_S

    def _note(self, *, away: Exception | None) -> None:
        with self._lock:
            was_away = self._ask_at is not None
            self._ask_at = self._clock() + PAUSE_S if away else None
            self.returns += was_away and not away
        if away and not was_away:
            logger.warning(
                "Redis is away (%s): mocks keep state and journal in each process",
                type(away).__name__,
            )
        elif was_away and not away:
            logger.info("Redis is back: processes share the state of mocks again")
