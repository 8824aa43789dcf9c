"""Attempts counted in Redis: a sorted set a key, each attempt scored with its end.

By Redis' own clock, in one script: atomic, and one round trip. A set holds `limit` attempts at
most and goes with the last of them.
"""

from __future__ import annotations

import secrets
from datetime import timedelta
from math import ceil
from typing import Final

from apps.system.api import QuickRedis, redis_key

_MICROSECOND: Final = timedelta(microseconds=1)
# KEYS: the set. ARGV: limit, window in µs, a name for this attempt. Returns µs to wait, or 0.
_COUNT: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= limit then
  return redis.call('ZRANGE', KEYS[1], -limit, -limit, 'WITHSCORES')[2] - now
end
redis.call('ZADD', KEYS[1], now + window, ARGV[3])
redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000))
return 0
"""


class RedisAttempts:
    """An AttemptCounter. Raises RedisAway."""

    def __init__(self, redis: QuickRedis) -> None:
        self._redis = redis

    def count(self, key_hash: str, *, limit: int, window: timedelta) -> int:
        wait_us: int = self._redis.run(
            _COUNT,
            keys=[redis_key("attempts", key_hash)],
            arguments=[limit, window // _MICROSECOND, secrets.token_hex(8)],
        )
        return ceil(wait_us / 1_000_000)
