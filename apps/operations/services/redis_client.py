"""The Redis that processes share for counting."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from apps.operations import conf
from kernel.redis_breaker import RedisBreaker, open_redis

ANSWER_S: Final = 0.25  # to connect, and then for the answer


class SharedRedisClient:
    """Runs scripts in one round trip, from any thread."""

    def __init__(self, url: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = open_redis(url, connect_s=ANSWER_S, answer_s=ANSWER_S)
        self._breaker = RedisBreaker(
            while_away="each process counts on",
            once_back="processes count together again",
            clock=clock,
        )

    def run(self, script: str, *, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        """Return what a Lua script returns; raise RedisUnavailable, during a pause at once."""
        with self._breaker.call():
            return self._client.register_script(script)(keys=keys, args=arguments)

    def close(self) -> None:
        self._client.close()


def shared_redis() -> SharedRedisClient | None:
    """Return the client of the Redis at REDIS_ADDR; None without one."""
    return _of(url) if (url := conf.redis_url()) else None


@lru_cache(maxsize=4)  # tests have several
def _of(url: str) -> SharedRedisClient:
    return SharedRedisClient(url)


def redis_key(*parts: str) -> str:
    """Return the name of a key below REDIS_PREFIX."""
    return ":".join((conf.redis_prefix(), *parts))
