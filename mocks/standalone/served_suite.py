"""The one space that `mock serve` serves, and the thread that reads its files again.

An edit takes effect as a whole, between two requests. One that breaks something keeps the last
version that did not: it is told, and the next edit is tried again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kernel.background import PeriodicThread
from kernel.errors import FileWarning, PlatformError
from mocks.model.ports import SpaceContent
from mocks.model.spaces import SpaceName
from mocks.standalone.served_files import Reading, ServedFiles

LOOK_S: Final = 0.25
# Warnings that mean that something is left out or answers 500; an edit must not bring them.
_BROKEN: Final = frozenset({
    "contract_invalid", "contract_unsupported", "cue_unsupported", "limit_exceeded",
    "mock_examples_invalid", "mock_metadata_invalid",
})  # fmt: skip
Reloaded = Callable[[Reading], None]
Kept = Callable[[str, Sequence[FileWarning]], None]  # why, and where


class ServedSuite:
    """The source of the one space (a SpaceSource).

    `kept`, and `reloaded` of `start`, are called on the thread that reads the files.
    """

    def __init__(self, files: ServedFiles, base_url: str, *, kept: Kept) -> None:
        self.files = files
        self.name = SpaceName(files.suite_id)
        self._base_url = base_url
        self._reloaded: Reloaded = lambda _reading: None
        self._kept = kept
        self._seen = self._read = files.signature()
        self.reading = files.read(base_url)
        self._ended = threading.Event()
        self._thread = PeriodicThread(
            "mock-files", self.check, lambda: self._ended.wait(LOOK_S), ended=self._ended
        )

    def load(self, name: SpaceName) -> SpaceContent | None:
        return self.reading.content if name == self.name else None

    def generations(self, names: Sequence[SpaceName]) -> Mapping[SpaceName, str]:
        return {name: self.reading.content.generation for name in names if name == self.name}

    def start(self, reloaded: Reloaded) -> None:
        """Begin to watch the files."""
        self._reloaded = reloaded
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(1)

    def check(self) -> None:
        """Read the files again if they have changed and are as they were at the check before.

        Editors write a file in steps, and a checkout writes many.
        """
        now, before = self.files.signature(), self._seen
        self._seen = now
        if now == self._read or now != before:
            return
        self._read = now
        try:
            reading = self.files.read(self._base_url)
        except PlatformError as error:
            self._kept(error.detail, error.errors)
            return
        if broken := _new_breakage(self.reading.warnings, reading.warnings):
            self._kept("an edit breaks the suite", broken)
            return
        if reading.content.generation != self.reading.content.generation:
            self.reading = reading
            self._reloaded(reading)


def _new_breakage(before: Sequence[FileWarning], after: Sequence[FileWarning]) -> list[FileWarning]:
    """Return what is broken now and was not; an error that moved to another line is no new one."""
    room = Counter(_fact(warning) for warning in before)
    found = []
    for warning in after:
        room[_fact(warning)] -= 1
        if warning.code in _BROKEN and room[_fact(warning)] < 0:
            found.append(warning)
    return found


def _fact(warning: FileWarning) -> tuple[str, str, str | None]:
    return warning.code, warning.detail, warning.file
