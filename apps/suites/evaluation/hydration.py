"""API surfaces of suites, made on a thread of their own and kept by content.

A list of suites waits for contracts no longer than for evaluations, since a large contract takes a
second to read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from apps.suites import conf
from apps.suites.domain.definition import Suite
from apps.suites.domain.flat_topology import ImportedSuite
from surfaces import HydratedSurfaces, hydrate

CACHED: Final = 256
_FOLDERS: Final = ("api/", "mock/")


class Hydrations:
    """The cache of API surfaces. It is thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: OrderedDict[tuple[str, str, str], Future[HydratedSurfaces]] = OrderedDict()
        self._thread: ThreadPoolExecutor | None = None

    def start(self, suite: Suite | ImportedSuite) -> Future[HydratedSurfaces]:
        """Return the surfaces of this content, made or under way; none of an invalid package."""
        files: Mapping[str, bytes]
        if isinstance(suite, ImportedSuite):
            files = suite.files
        else:
            files = {} if suite.package_problem else suite.package.files
        if not any(path.startswith(_FOLDERS) for path in files):
            nothing: Future[HydratedSurfaces] = Future()
            nothing.set_result(_NOTHING)
            return nothing
        key = (suite.suite_id, suite.digest, conf.mock_base_url())
        with self._lock:
            if key in self._made and not self._made[key].cancelled():
                self._made.move_to_end(key)
                return self._made[key]
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "suite-hydration")
            future = self._thread.submit(hydrate, files, suite_id=suite.suite_id, base_url=key[2])
            self._made[key] = future
            while len(self._made) > CACHED:
                self._made.popitem(last=False)
            return future

    def close(self) -> None:
        """Cancel what has not started; a later call starts a new thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread:
            thread.shutdown(wait=False, cancel_futures=True)


_NOTHING: Final = HydratedSurfaces()
