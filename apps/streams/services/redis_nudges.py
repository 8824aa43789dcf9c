"""Nudges between processes through Redis publish/subscribe.

There is one channel, one subscription per process, and at most one message every 20 ms. While
Redis is unavailable, nudges are lost, and other processes find the changes at their next poll.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import redis

from kernel.background import BackgroundThread, one_cycle, report_error

GATHER_S: Final = 0.02
RETRY_S: Final = 1.0
_TIMEOUT_S: Final = 2.0
logger = logging.getLogger("partita.streams")


class RedisNudges:
    """The connection of this process. Its threads start with the first use."""

    def __init__(
        self,
        url: str,
        channel: str,
        *,
        on_nudge: Callable[[str], None],
        on_reconnect: Callable[[], None],
    ) -> None:
        self._url = url
        self._channel = channel
        self._on_nudge = on_nudge
        self._on_reconnect = on_reconnect
        self._origin = secrets.token_hex(8)
        self._pending: set[str] = set()
        self._changed = threading.Condition()
        # With the process id: a fork has no threads.
        self._running: dict[str, tuple[int, BackgroundThread]] = {}
        self._closed = threading.Event()
        self._away = False
        self._published_at = 0.0

    def publish(self, name: str) -> None:
        """Nudge the other processes soon. Never block, never raise."""
        self._start("streams-nudge-out", self._publish_all)
        with self._changed:
            self._pending.add(name)
            self._changed.notify()

    def subscribe(self) -> None:
        """Receive the nudges of other processes from now on."""
        self._start("streams-nudge-in", self._subscribe_all)

    def close(self) -> None:
        """Publish the remaining nudges, for at most a second: a command may end right away."""
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
        while names := self._take_pending():
            message = json.dumps([self._origin, *names])
            with one_cycle():
                try:
                    client.publish(self._channel, message)
                    self._note(away=None)
                except redis.RedisError as error:
                    self._note(away=error)
                    report_error(optional=True)
        client.close()

    def _take_pending(self) -> list[str]:
        """Wait for names and for the end of the 20 ms; return none once all are published."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._closed.is_set())
        self._closed.wait(max(0.0, self._published_at + GATHER_S - time.monotonic()))
        self._published_at = time.monotonic()
        with self._changed:
            names, self._pending = sorted(self._pending), set()
        return names

    def _subscribe_all(self) -> None:
        while not self._closed.is_set():
            try:
                self._listen_until_lost()
            except redis.RedisError as error:
                self._note(away=error)
                report_error(optional=True)
                self._closed.wait(RETRY_S)

    def _listen_until_lost(self) -> None:
        with self._client() as client, client.pubsub() as subscription:
            subscription.subscribe(self._channel)
            while not self._closed.is_set():
                with one_cycle():
                    self._receive(subscription.get_message(timeout=0.5))

    def _receive(self, message: Mapping[str, Any] | None) -> None:
        if message is None:
            return
        if message["type"] == "subscribe":
            self._note(away=None)
            self._on_reconnect()  # earlier nudges are lost
        elif message["type"] == "message":
            origin, *names = json.loads(message["data"])
            if origin != self._origin:
                for name in names:
                    self._on_nudge(name)

    def _client(self) -> redis.Redis:
        return redis.Redis.from_url(
            self._url,
            socket_connect_timeout=_TIMEOUT_S,
            socket_timeout=_TIMEOUT_S,
            health_check_interval=5,
        )

    def _note(self, *, away: Exception | None) -> None:
        if away and not self._away:
            logger.warning("Nudges stay in this process while Redis is unavailable: %s", away)
        elif self._away and not away:
            logger.info("Redis is back")
        self._away = away is not None
