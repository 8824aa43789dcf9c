"""Nudges: best-effort wake-ups. A lost nudge costs latency, never a record."""

from __future__ import annotations

import atexit
import functools
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from django.db import connection, transaction

from apps.operations.api import redis_key, redis_url

if TYPE_CHECKING:
    from apps.streams.services.redis_nudges import RedisNudges

Callback = Callable[[], None]


class Switchboard:
    """The listeners of this process, by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[str, dict[object, Callback]] = defaultdict(dict)

    def listen(self, name: str, callback: Callback) -> Callable[[], None]:
        key = object()
        with self._lock:
            self._listeners[name][key] = callback

        def unsubscribe() -> None:
            with self._lock:
                self._listeners[name].pop(key, None)
                if not self._listeners[name]:
                    del self._listeners[name]

        return unsubscribe

    def wake(self, name: str) -> None:
        with self._lock:
            callbacks = tuple(self._listeners.get(name, {}).values())
        for callback in callbacks:
            callback()

    def wake_all(self) -> None:
        with self._lock:
            names = tuple(self._listeners)
        for name in names:
            self.wake(name)


_switchboard = Switchboard()


def nudge(name: str) -> None:
    """Wake every listener of `name` once the current transaction commits; at once outside one.

    Listeners of other processes are woken through Redis, if there is one. Outside a transaction,
    the call does not touch the store and is safe on an event loop.
    """
    if connection.in_atomic_block or getattr(connection, "in_atomic_block_mongo", False):
        transaction.on_commit(lambda: _publish(name), robust=True)  # Django cannot log a partial
    else:
        _publish(name)


def wake(name: str) -> None:
    """Wake the listeners of this process alone, at once; it does not touch the store."""
    _switchboard.wake(name)


def has_nudges_of_others() -> bool:
    """Return whether nudges of other processes arrive here."""
    return _other_processes() is not None


def listen(name: str, callback: Callback) -> Callable[[], None]:
    """Call `callback` at every nudge of `name` until the returned function is called.

    The callback runs on any thread, also the one that committed. It must be quick, must not raise
    and must not touch the store; an event's `set` or a loop's `call_soon_threadsafe` will do.
    A nudge may be lost or repeated, so listeners must also poll the store.
    """
    if others := _other_processes():
        others.subscribe()
    return _switchboard.listen(name, callback)


def _publish(name: str) -> None:
    _switchboard.wake(name)
    if others := _other_processes():
        others.publish(name)


@functools.cache
def _other_processes() -> RedisNudges | None:
    url = redis_url()
    if not url:
        return None
    from apps.streams.services.redis_nudges import RedisNudges  # its library is slow to import

    others = RedisNudges(
        url,
        redis_key("nudges"),
        on_nudge=_switchboard.wake,
        on_reconnect=_switchboard.wake_all,
    )
    atexit.register(others.close)
    return others
