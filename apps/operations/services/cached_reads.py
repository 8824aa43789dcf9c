"""Reads whose result is kept until what it was computed from changes.

    _read = CachedReads("catalog")
    document = _read.get("packages", compute)      # JSON

    @unit_of_work
    def change(...):
        ...
        raise_generation("catalog")                # in the transaction of the change

Each topic has a generation in the store, which every write raises in its own transaction. A result
is kept under the generation that was read before it was computed, so whoever reads after a write
never gets an older result, in any process. Redis, where it is configured, shares results between
processes. While it is away or slow, each process computes its own.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from django.db import connection
from django.db.models import F

from apps.operations import conf
from apps.operations.models import CacheGeneration
from apps.operations.services.redis_client import redis_key, shared_redis
from kernel.redis_breaker import RedisUnavailable

T = TypeVar("T")

MAX_ENTRIES: Final = 512  # per topic and process
MAX_SHARED_BYTES: Final = 4 * 2**20  # a larger result is not sent to Redis
_READ: Final = "return redis.call('GET', KEYS[1])"
_WRITE: Final = "return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])"


def generation(topic: str) -> int:
    """Return how often a topic has changed."""
    found = CacheGeneration.objects.filter(topic=topic).values_list("number", flat=True).first()
    return found or 0


def raise_generation(topic: str) -> None:
    """Make every cached read of a topic outdated; call it in the unit of work of the change."""
    if not CacheGeneration.objects.filter(topic=topic).update(number=F("number") + 1):
        CacheGeneration.objects.create(topic=topic, number=1)


class CachedReads:
    """The cached reads of one topic, a key of CACHE_TTL_S. It is thread-safe.

    Results are JSON values, which callers must not change. They go to Redis as they are: keep no
    secret in them.
    """

    def __init__(self, topic: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._topic = topic
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, str], tuple[float, Any]] = OrderedDict()

    def get(self, key: str, compute: Callable[[], T]) -> T:
        """Return the kept result under `key`, else `compute()`.

        Inside a transaction nothing is kept or taken: it may see what is never committed.
        """
        if connection.in_atomic_block:
            return compute()
        place = (generation(self._topic), key)
        with self._lock:
            until, value = self._kept.get(place, (0.0, None))
        if until > self._clock():
            return cast("T", value)
        shared = self._read_shared(place)
        result = cast("T", shared[0]) if shared else compute()
        if not shared:
            self._share(place, result)
        self._keep(place, result)
        return result

    def _keep(self, place: tuple[int, str], result: object) -> None:
        until = self._clock() + conf.cache_ttl_s(self._topic)
        with self._lock:
            self._kept[place] = (until, result)
            self._kept.move_to_end(place)
            while len(self._kept) > MAX_ENTRIES:
                self._kept.popitem(last=False)

    def _read_shared(self, place: tuple[int, str]) -> tuple[object] | None:
        redis = shared_redis()
        if redis is None:
            return None
        try:
            found = redis.run(_READ, keys=[self._redis_key(place)], arguments=[])
        except RedisUnavailable:
            return None
        return None if found is None else (json.loads(found),)

    def _share(self, place: tuple[int, str], result: object) -> None:
        redis = shared_redis()
        if redis is None:
            return
        text = json.dumps(result)
        if len(text) > MAX_SHARED_BYTES:
            return
        life_ms = round(conf.cache_ttl_s(self._topic) * 1000)
        try:
            redis.run(_WRITE, keys=[self._redis_key(place)], arguments=[text, life_ms])
        except RedisUnavailable:
            return

    def _redis_key(self, place: tuple[int, str]) -> str:
        number, key = place
        return redis_key("reads", self._topic, str(number), key)
