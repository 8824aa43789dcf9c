"""Leases in Redis that count the open streams of each user over all processes.

Each user has a sorted set with a score for each stream, the end of its lease by Redis' clock. A
process renews its leases; those of a killed process expire after at most LEASE_S.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache, partial
from queue import Empty, SimpleQueue
from typing import Final

from apps.operations.api import SharedRedisClient, redis_key, shared_redis
from kernel.background import BackgroundThread, one_cycle, report_error
from kernel.redis_breaker import RedisUnavailable

LEASE_S: Final = 45.0
RENEW_S: Final = 15.0
RETRY_S: Final = 5.0  # after a failed renewal
LONGEST_PAUSE_S: Final = 0.5
_BATCH: Final = 500
# KEYS: the user's set. ARGV: limit, lease in ms, stream. Returns 1 when the stream got a lease.
_ACQUIRE: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""
# KEYS: the set of each stream. ARGV: lease in ms, then the streams. Also adds lost leases.
_RENEW: Final = """
local time = redis.call('TIME')
local ends = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]
for i, key in ipairs(KEYS) do
  redis.call('ZADD', key, ends, ARGV[i + 1])
  redis.call('PEXPIRE', key, ARGV[1])
end
"""
_RELEASE: Final = "redis.call('ZREM', KEYS[1], ARGV[1])"


class StreamLeases:
    """The leases of this process. A thread of its own calls Redis, in the order of the calls here.

    The thread starts with the first stream. While Redis is unavailable, every stream gets a lease
    and is counted from the next renewal on.
    """

    def __init__(
        self, redis: SharedRedisClient, *, lease_s: float = LEASE_S, renew_s: float = RENEW_S
    ) -> None:
        self._redis = redis
        self._lease_ms = int(lease_s * 1000)
        self._renew_s = renew_s
        self._renew_at = time.monotonic() + renew_s
        self._held: dict[str, str] = {}  # stream -> its user's set; for the thread only
        # Its `put` is reentrant: the garbage collector may release leases at any moment.
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: BackgroundThread | None = None

    def acquire(self, user_key: str, *, limit: int) -> tuple[str, Future[bool]]:
        """Return a name for a new stream and whether it is within `limit`. Never block."""
        stream, answer = secrets.token_hex(8), Future[bool]()
        users_set = redis_key("streams", hashlib.sha256(user_key.encode()).hexdigest())
        answer.set_running_or_notify_cancel()  # not cancellable: the lease may exist already
        self._start()
        self._calls.put(partial(self._acquire, users_set, stream, limit, answer))
        return stream, answer

    def release(self, stream: str) -> None:
        """Release a lease, from any thread. Never block."""
        self._calls.put(partial(self._release, stream))

    def flush(self, *, timeout_s: float) -> bool:
        """Wait until Redis has seen, or was unavailable for, all earlier calls; False if not."""
        if self._thread is None:
            return True
        done = threading.Event()
        self._calls.put(done.set)
        return done.wait(timeout_s)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = BackgroundThread(
                    "stream-leases", self._process_calls, longest_pause_s=LONGEST_PAUSE_S
                )
                self._thread.start()

    def _process_calls(self) -> None:
        while True:
            with one_cycle():
                self._process_next()

    def _process_next(self) -> None:
        wait_s = self._renew_at - time.monotonic()
        try:
            if wait_s > 0:
                self._calls.get(timeout=wait_s)()
            else:
                self._renew_all()
        except Empty:
            return
        except RedisUnavailable:
            report_error(optional=True)
            self._renew_at = min(self._renew_at, time.monotonic() + RETRY_S)

    def _acquire(self, users_set: str, stream: str, limit: int, answer: Future[bool]) -> None:
        try:
            arguments = (limit, self._lease_ms, stream)
            free = bool(self._redis.run(_ACQUIRE, keys=[users_set], arguments=arguments))
        except RedisUnavailable:
            report_error(optional=True)
            free = True
        except Exception:
            answer.set_result(True)
            raise
        if free:
            self._held[stream] = users_set
        answer.set_result(free)

    def _release(self, stream: str) -> None:
        if users_set := self._held.pop(stream, ""):
            self._redis.run(_RELEASE, keys=[users_set], arguments=[stream])

    def _renew_all(self) -> None:
        self._renew_at = time.monotonic() + self._renew_s
        held = list(self._held.items())
        for first in range(0, len(held), _BATCH):
            streams, sets = zip(*held[first : first + _BATCH], strict=True)
            self._redis.run(_RENEW, keys=sets, arguments=[self._lease_ms, *streams])


def process_leases() -> StreamLeases | None:
    """Return the leases of this process, or None without Redis."""
    return _leases_in(redis) if (redis := shared_redis()) else None


@lru_cache(maxsize=4)  # tests use several
def _leases_in(redis: SharedRedisClient) -> StreamLeases:
    return StreamLeases(redis)
