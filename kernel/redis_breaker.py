"""Redis asked briefly, and left alone while it is away; every caller goes on without it.

Its library is imported with the first client: it takes longer than any other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from redis import Redis
    from redis.asyncio import ConnectionPool

PAUSE_S: Final = 3.0
logger = logging.getLogger("partita.system")


class RedisUnavailable(Exception):
    """Redis did not answer in time, or did not a moment ago: go on without it."""


class RedisBreaker:
    """Decides whether to ask; for any thread.

    After a call without an answer nobody asks for PAUSE_S; then one caller does, while the others
    still go on without it. `while_away` and `once_back` say in the log what that means.
    """

    def __init__(
        self, *, while_away: str, once_back: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.returns = 0  # how often Redis has come back
        self._while_away = while_away
        self._once_back = once_back
        self._clock = clock
        self._lock = threading.Lock()
        self._ask_at: float | None = None  # None: it answers

    @property
    def is_away(self) -> bool:
        return self._ask_at is not None

    @contextmanager
    def call(self) -> Iterator[None]:
        """Make one call in this context and record how it ended; raise RedisUnavailable."""
        self.admit()
        from redis import RedisError

        try:
            yield
        except (RedisError, OSError) as error:
            self.record_failure(error)
            raise RedisUnavailable from error
        self.record_answer()

    def admit(self) -> None:
        """Return when Redis may be asked; raise RedisUnavailable during a pause."""
        if not self.is_away:  # the usual case takes no lock
            return
        with self._lock:
            if self._ask_at is None:
                return
            if self._clock() < self._ask_at:
                raise RedisUnavailable
            self._ask_at = self._clock() + PAUSE_S

    def record_answer(self) -> None:
        if not self.is_away:
            return
        with self._lock:
            was_away, self._ask_at = self._ask_at is not None, None
            self.returns += was_away
        if was_away:
            logger.info("Redis is back: %s", self._once_back)

    def record_failure(self, error: Exception) -> None:
        with self._lock:
            was_away, self._ask_at = self._ask_at is not None, self._clock() + PAUSE_S
        if not was_away:
            logger.warning("Redis is away (%s): %s", type(error).__name__, self._while_away)


def open_redis(url: str, *, connect_s: float, answer_s: float) -> Redis:
    """Return a client that connects at its first command and never asks twice."""
    from redis import Redis
    from redis.retry import Retry

    return Redis.from_url(url, **_limits(Retry, connect_s, answer_s))


def open_async_pool(url: str, *, connect_s: float, answer_s: float) -> ConnectionPool:
    """Return a pool of such connections for an event loop."""
    from redis.asyncio import ConnectionPool
    from redis.asyncio.retry import Retry

    return ConnectionPool.from_url(url, protocol=2, **_limits(Retry, connect_s, answer_s))


def _limits(retry: Callable[..., object], connect_s: float, answer_s: float) -> Mapping[str, Any]:
    from redis.backoff import NoBackoff

    return {
        "socket_connect_timeout": connect_s,
        "socket_timeout": answer_s,
        "retry": retry(NoBackoff(), 0),
    }
