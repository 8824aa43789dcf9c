"""Which streams each user has open in all processes: leases in Redis that end by themselves.

A sorted set a user, each stream scored with the end of its lease by Redis' own clock. A process
renews what it holds; what a killed one held is forgotten LEASE_S later at most.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache, partial
from queue import Empty, SimpleQueue
from typing import Final

from apps.system.api import QuickRedis, RedisAway, redis_key, shared_redis
from kernel.background import BackgroundThread

log = logging.getLogger("partita.streams")
LEASE_S: Final = 45.0
RENEW_S: Final = 15.0
RETRY_S: Final = 5.0  # after a renewal that did not reach Redis
LONGEST_PAUSE_S: Final = 0.5
_BATCH: Final = 500
# KEYS: the user's set. ARGV: the most streams, ms of a lease, the stream. 1 when it has its place.
_TAKE: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""
# KEYS: each stream's set. ARGV: ms of a lease, then the streams. Also adds what Redis forgot.
_RENEW: Final = """
local time = redis.call('TIME')
local ends = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]
for i, key in ipairs(KEYS) do
  redis.call('ZADD', key, ends, ARGV[i + 1])
  redis.call('PEXPIRE', key, ARGV[1])
end
"""
_GIVE_BACK: Final = "redis.call('ZREM', KEYS[1], ARGV[1])"


class StreamLeases:
    """What this process holds. A thread of its own asks Redis, in the order in which it was told.

    The thread starts with the first stream. While Redis is away every stream gets its place, and
    is counted from the next renewal on.
    """

    def __init__(
        self, redis: QuickRedis, *, lease_s: float = LEASE_S, renew_s: float = RENEW_S
    ) -> None:
        self._redis = redis
        self._lease_ms = int(lease_s * 1000)
        self._renew_s = renew_s
        self._renew_at = time.monotonic() + renew_s
        self._held: dict[str, str] = {}  # stream -> its user's set; only the thread looks
        # Its `put` may interrupt itself: places are given back wherever an answer is collected.
        self._asked: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: BackgroundThread | None = None

    def take(self, user_key: str, *, most: int) -> tuple[str, Future[bool]]:
        """A name for a new stream, and whether it is one of `most`. Never blocks."""
        stream, answer = secrets.token_hex(8), Future[bool]()
        answer.set_running_or_notify_cancel()  # nobody cancels it: its place may be taken already
        self._start()
        self._asked.put(partial(self._take, _set_of(user_key), stream, most, answer))
        return stream, answer

    def give_back(self, stream: str) -> None:
        """From any thread; never blocks."""
        self._asked.put(partial(self._give_back, stream))

    def wait_until_told(self, *, timeout_s: float) -> bool:
        """Whether Redis was told, or found away, of all that was asked so far."""
        if self._thread is None:
            return True
        told = threading.Event()
        self._asked.put(told.set)
        return told.wait(timeout_s)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = BackgroundThread(  # who asks next waits for it
                    "stream-leases", self._answer_all, longest_pause_s=LONGEST_PAUSE_S
                )
                self._thread.start()

    def _answer_all(self) -> None:
        while True:
            wait_s = self._renew_at - time.monotonic()
            try:
                if wait_s > 0:
                    self._asked.get(timeout=wait_s)()
                else:
                    self._renew_all()
            except Empty:
                continue
            except RedisAway:
                self._renew_at = min(self._renew_at, time.monotonic() + RETRY_S)

    def _take(self, users_set: str, stream: str, most: int, answer: Future[bool]) -> None:
        try:
            arguments = (most, self._lease_ms, stream)
            free = bool(self._redis.run(_TAKE, keys=[users_set], arguments=arguments))
        except RedisAway:
            free = True
        except Exception:
            answer.set_result(True)
            raise
        if free:
            self._held[stream] = users_set
        answer.set_result(free)

    def _give_back(self, stream: str) -> None:
        if users_set := self._held.pop(stream, ""):
            self._redis.run(_GIVE_BACK, keys=[users_set], arguments=[stream])

    def _renew_all(self) -> None:
        self._renew_at = time.monotonic() + self._renew_s
        held = list(self._held.items())
        for first in range(0, len(held), _BATCH):
            streams, sets = zip(*held[first : first + _BATCH], strict=True)
            self._redis.run(_RENEW, keys=sets, arguments=[self._lease_ms, *streams])


def leases_here() -> StreamLeases | None:
    """The leases of this process; None without a Redis."""
    return _of(redis) if (redis := shared_redis()) else None


@lru_cache(maxsize=4)  # tests have several
def _of(redis: QuickRedis) -> StreamLeases:
    return StreamLeases(redis)


def _set_of(user_key: str) -> str:
    return redis_key("streams", hashlib.sha256(user_key.encode()).hexdigest())
