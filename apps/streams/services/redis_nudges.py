"""Nudges between processes by Redis publish/subscribe, when there is a Redis.

One channel, one subscription a process, a message each 20 ms at most. Redis away
is never an error: the nudges of that time are lost, which costs others a poll's latency.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import redis

from kernel.background import BackgroundThread

GATHER_S: Final = 0.02
RETRY_S: Final = 1.0
_TIMEOUT_S: Final = 2.0
logger = logging.getLogger("partita.streams")


class RedisNudges:
    """Threads start with the first use, so a process that only imports this has none."""

    def __init__(
        self, url: str, channel: str, *, hear: Callable[[str], None], hear_all: Callable[[], None]
    ) -> None:
        self._url = url
        self._channel = channel
        self._hear = hear
        self._hear_all = hear_all
        self._origin = secrets.token_hex(8)
        self._pending: set[str] = set()
        self._changed = threading.Condition()
        self._running: dict[str, tuple[int, BackgroundThread]] = {}  # (process: a fork has none)
        self._closed = threading.Event()
        self._away = False
        self._told_at = 0.0

    def tell(self, name: str) -> None:
        """Tell the other processes, soon; never blocks and never fails."""
        self._start("streams-nudge-out", self._publish_all)
        with self._changed:
            self._pending.add(name)
            self._changed.notify()

    def subscribe(self) -> None:
        """Hear the other processes from now on."""
        self._start("streams-nudge-in", self._subscribe_all)

    def close(self) -> None:
        """Tell what is still untold, for a second at most: a command may end at once."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()
        for process, thread in self._running.values():
            if process == os.getpid():
                thread.join(1)

    def _start(self, name: str, work: Callable[[], None]) -> None:
        with self._changed:
            process, _ = self._running.get(name, (0, None))
            if process == os.getpid():
                return
            thread = BackgroundThread(name, work, ended=self._closed)
            self._running[name] = (os.getpid(), thread)
            thread.start()

    def _publish_all(self) -> None:
        client = self._client()
        while names := self._gathered():
            message = json.dumps([self._origin, *names])
            try:
                client.publish(self._channel, message)
                self._note(away=None)
            except redis.RedisError as error:
                self._note(away=error)
        client.close()

    def _gathered(self) -> list[str]:
        """Waits for a name, and until 20 ms after the last ones; empty once closed and all told."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._closed.is_set())
        self._closed.wait(max(0.0, self._told_at + GATHER_S - time.monotonic()))
        self._told_at = time.monotonic()
        with self._changed:
            names, self._pending = sorted(self._pending), set()
        return names

    def _subscribe_all(self) -> None:
        while not self._closed.is_set():
            try:
                self._listen_until_lost()
            except redis.RedisError as error:
                self._note(away=error)
                self._closed.wait(RETRY_S)

    def _listen_until_lost(self) -> None:
        with self._client() as client, client.pubsub() as subscription:
            subscription.subscribe(self._channel)
            while not self._closed.is_set():
                self._receive(subscription.get_message(timeout=0.5))

    def _receive(self, message: dict[str, Any] | None) -> None:
        if message is None:
            return
        if message["type"] == "subscribe":
            self._note(away=None)
            self._hear_all()  # what was told before is lost
        elif message["type"] == "message":
            origin, *names = json.loads(message["data"])
            if origin != self._origin:
                for name in names:
                    self._hear(name)

    def _client(self) -> redis.Redis:
        return redis.Redis.from_url(
            self._url,
            socket_connect_timeout=_TIMEOUT_S,
            socket_timeout=_TIMEOUT_S,
            health_check_interval=5,
        )

    def _note(self, *, away: Exception | None) -> None:
        if away and not self._away:
            logger.warning("Nudges stay in this process while Redis is away: %s", away)
        elif self._away and not away:
            logger.info("Redis is back")
        self._away = away is not None
