"""The Redis that processes share for counting: asked briefly, and left alone while it is away.

Its library is imported with the first client: it takes longer than any other, for it imports the
OpenTelemetry SDK, and who has no Redis must not wait for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from apps.operations import conf

if TYPE_CHECKING:
    from redis import Redis

ANSWER_S: Final = 0.25  # to connect, and then for the answer
PAUSE_S: Final = 3.0
logger = logging.getLogger("partita.system")


class RedisAway(Exception):
    """Redis did not answer in time, or did not a moment ago: go on without it."""


class SharedRedisClient:
    """Runs scripts in one round trip, from any thread.

    After a call without an answer nobody asks for PAUSE_S; then one caller does, while the others
    still go on without it.
    """

    def __init__(self, url: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = _client(url)
        self._clock = clock
        self._lock = threading.Lock()
        self._ask_at: float | None = None  # None: it answers

    def run(self, script: str, *, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        """Run a Lua script and return its result; raise RedisAway, at once while Redis is away."""
        from redis import RedisError

        self._admit()
        try:
            answer = self._client.register_script(script)(keys=keys, args=arguments)
        except RedisError as error:
            self._note(away=error)
            raise RedisAway from error
        self._note(away=None)
        return answer

    def close(self) -> None:
        self._client.close()

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
        if away and not was_away:
            logger.warning("Redis is away (%s): each process counts on", type(away).__name__)
        elif was_away and not away:
            logger.info("Redis is back: processes count together again")


def _client(url: str) -> Redis:
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return Redis.from_url(
        url,
        socket_connect_timeout=ANSWER_S,
        socket_timeout=ANSWER_S,
        retry=Retry(NoBackoff(), 0),
    )


def shared_redis() -> SharedRedisClient | None:
    """Return the client of the Redis at REDIS_ADDR; None without one."""
    return _of(url) if (url := conf.redis_url()) else None


@lru_cache(maxsize=4)  # tests have several
def _of(url: str) -> SharedRedisClient:
    return SharedRedisClient(url)


def redis_key(*parts: str) -> str:
    """Return the name of a key below REDIS_PREFIX."""
    return ":".join((conf.redis_prefix(), *parts))
