"""Redis's keyspace events: hints that a destination changed (reference: sync-stack 6.1).

A server sends them only where `notify-keyspace-events` says so; we never change that setting.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from typing import Any, Final

from redis import exceptions

from sync_stack.core.sink import Destination
from sync_stack.sinks.documents import bytes_of
from sync_stack.sinks.redis_client import translated

_MOST: Final = 1000  # of one look; what is left comes with the next one
_ASK_S: Final = 30.0  # a connection that died silently is noticed by then
_GLOB: Final = re.compile(rb"([*?\[\]^\\])")


class RedisChanges:
    """For one thread. `strings`: a destination's keys begin with its name and its separator."""

    def __init__(self, client: Any, *, db: int) -> None:
        self._client = client
        self._prefix = f"__keyspace@{db}__:".encode()
        self._events = client.pubsub(ignore_subscribe_messages=True)
        self._heard: dict[bytes, str] = {}  # channel or pattern → id of the destination
        self._asked = time.monotonic()

    def is_told(self, kinds: str) -> bool:
        """Whether the server sends events of these kinds; True where it does not say."""
        with translated():
            try:
                found = self._client.config_get("notify-keyspace-events")
            except exceptions.ResponseError:
                return True  # the user may not ask
        flags = set(dict(found).get("notify-keyspace-events", ""))
        return "K" in flags and ("A" in flags or flags >= set(kinds))

    def next(self, destinations: Collection[Destination], timeout_s: float) -> frozenset[str]:
        with translated():
            self._follow({self._channel(each): each.id for each in destinations})
            self._ask()
            ids: set[str] = set()
            message = self._events.get_message(timeout=timeout_s)
            while message is not None and len(ids) < _MOST:
                ids.add(self._heard.get(message.get("pattern") or message["channel"], ""))
                message = self._events.get_message(timeout=0)
            return frozenset(ids - {""})

    def close(self) -> None:
        with translated():
            self._events.close()
            self._client.close()

    def _channel(self, destination: Destination) -> bytes:
        """Of the key; a pattern where the destination is the beginning of many keys."""
        name = self._prefix + bytes_of(destination.name)
        if not destination.separator:
            return name
        start = name + bytes_of(destination.separator)
        return _GLOB.sub(rb"\\\1", start) + b"*"

    def _follow(self, wanted: dict[bytes, str]) -> None:
        new, gone = wanted.keys() - self._heard.keys(), self._heard.keys() - wanted.keys()
        for patterns, begin, end in (
            (True, self._events.psubscribe, self._events.punsubscribe),
            (False, self._events.subscribe, self._events.unsubscribe),
        ):
            if names := [name for name in new if name.endswith(b"*") is patterns]:
                begin(*names)
            if names := [name for name in gone if name.endswith(b"*") is patterns]:
                end(*names)
        self._heard = wanted

    def _ask(self) -> None:
        if self._heard and time.monotonic() - self._asked > _ASK_S:
            self._asked = time.monotonic()
            self._events.ping()
