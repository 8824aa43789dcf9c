"""The parts of mocks in a Django process, made once of the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import lru_cache
from typing import Final, TypeVar

from django.db import connection

from apps.accounts.api import is_access_token, is_program_token
from apps.mocks import conf
from apps.mocks.selectors import resets_of
from apps.observability.api import RequestContext, enter_request, mask_credentials
from apps.operations.api import DatastoreUnavailable, is_store_away, redis_url
from apps.streams.api import release_stale_connection
from kernel.redaction import known_secrets
from mocks.engine.engine import Engine
from mocks.engine.tables import compile_space
from mocks.journal.memory import MemoryJournal
from mocks.journal.redis import RedisJournal
from mocks.proxies.lazy import LazyProxy
from mocks.redis_link import RedisLink
from mocks.scripts.pool import ScriptPool
from mocks.spaces import Spaces, SpacesSetup, find_source
from mocks.state.memory import MemoryState
from mocks.state.redis import RedisState, SharedState

T = TypeVar("T")
ANSWER_S: Final = 10.0  # for what another thread asks of the event loop


class MockParts:
    """State, journal, spaces and engine of this process.

    `loop` is the server's, while it runs, and `serves_since` when it began to.
    """

    def __init__(self, url: str) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.serves_since: datetime | None = None
        self.link = RedisLink(url, prefix=conf.redis_prefix()) if url else None
        self.own_state = MemoryState()
        self.state: MemoryState | SharedState = self.own_state
        self.journal: MemoryJournal | RedisJournal = MemoryJournal(mask_text)
        if self.link is not None:
            self.state = SharedState(RedisState(self.link), self.own_state)
            self.journal = RedisJournal(self.link, mask_text)
        self.spaces = Spaces(
            SpacesSetup(
                source_of=find_source,
                compile=compile_space,
                resets=resets_of,
                state=self.state,
                is_away=_is_away,
                connect=_connect,
                disconnect=_disconnect,
            )
        )
        self.scripts = ScriptPool()
        self.proxy = LazyProxy(allowed=conf.proxy_networks(), is_own_secret=is_own_secret)
        self.engine = Engine(
            state=self.state, scripts=self.scripts, proxy=self.proxy, validate=conf.validate_mode()
        )

    async def close(self) -> None:
        """Send what waits for Redis and release connections, threads and processes."""
        await asyncio.to_thread(self.scripts.close)
        await asyncio.to_thread(self.spaces.stop)
        if isinstance(self.journal, RedisJournal):
            await asyncio.to_thread(self.journal.close)
        if self.link is not None:
            await self.link.close()


def mock_parts() -> MockParts:
    return _of(redis_url())


@lru_cache(maxsize=2)  # tests have several
def _of(url: str) -> MockParts:
    return MockParts(url)


def wait_for(work: Callable[[], Awaitable[T]]) -> T:
    """Await `work()` from a thread without an event loop: on the server's loop, else on a new one.

    Scripts and connections of the server belong to its loop.
    """
    loop = mock_parts().loop
    if loop is not None and loop.is_running():
        return asyncio.run_coroutine_threadsafe(_coroutine(work), loop).result(ANSWER_S)
    return asyncio.run(_then_disconnect(work))


async def _coroutine(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


async def _then_disconnect(work: Callable[[], Awaitable[T]]) -> T:
    try:
        return await work()
    finally:
        link = mock_parts().link
        if link is not None:
            await link.leave_loop()


def is_own_secret(text: str) -> bool:
    """Return whether a text is, or holds, a secret or a token of this installation."""
    if is_program_token(text) or is_access_token(text) or text in conf.own_secrets():
        return True
    return known_secrets.mask(text) != text


def mask_text(text: str) -> str:
    """Mask the credentials in a text."""
    return mask_credentials(known_secrets.mask(text))


def _connect() -> None:
    """Let this thread wait for the store no longer than a request does."""
    enter_request(RequestContext())
    release_stale_connection()


def _disconnect() -> None:
    if not connection.in_atomic_block:  # in tests, a thread may share a transaction
        connection.close()


def _is_away(error: Exception) -> bool:
    return isinstance(error, DatastoreUnavailable) or is_store_away(error)
