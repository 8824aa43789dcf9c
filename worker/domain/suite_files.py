"""The archives of suites that steps start with: fetched and built once, not for each step."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable
from typing import Final

KEPT_BYTES: Final = 64 * 2**20


class KeptArchives:
    """The archives that were used last, up to `limit` bytes in all; for any thread."""

    def __init__(self, *, limit: int = KEPT_BYTES) -> None:
        self._limit = limit
        self._kept: OrderedDict[str | bytes, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str | bytes) -> bytes | None:
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key]

    def keep(self, key: str | bytes, archive: bytes) -> None:
        with self._lock:
            self._kept[key] = archive
            while sum(map(len, self._kept.values())) > self._limit:
                self._kept.popitem(last=False)

    def get_or_build(self, content: bytes, build: Callable[[bytes], bytes]) -> bytes:
        """Return what `build` makes of the content; two threads may build the same at once."""
        archive = self.get(content)
        if archive is None:
            archive = build(content)
            self.keep(content, archive)
        return archive


class SuiteFiles:
    """The files of suites (tar+gzip) by their digest. Fetches of one digest wait for the first."""

    def __init__(self, *, limit: int = KEPT_BYTES) -> None:
        self._kept = KeptArchives(limit=limit)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._waiting: defaultdict[str, int] = defaultdict(int)

    async def get(self, digest: str, fetch: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return the archive of a digest (`sha256:…`); without a digest it is always fetched.

        An archive that does not have its digest is returned and not kept. Raises what `fetch` does.
        """
        if not digest:
            return await fetch()
        self._waiting[digest] += 1
        try:
            async with self._locks[digest]:
                content = self._kept.get(digest)
                if content is None:
                    content = await fetch()
                    if digest == f"sha256:{hashlib.sha256(content).hexdigest()}":
                        self._kept.keep(digest, content)
                return content
        finally:
            self._waiting[digest] -= 1
            if not self._waiting[digest]:
                del self._waiting[digest], self._locks[digest]
