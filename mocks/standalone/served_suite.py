"""The one space that `mock serve` serves, and the thread that reads its files again.

An edit takes effect as a whole, between two requests. A file that it breaks stays as it was last
without that: it is told, all other files are as edited, and the next edit is tried again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from kernel.background import PeriodicThread
from kernel.errors import FileWarning, PlatformError
from mocks.model.ports import SpaceContent
from mocks.model.spaces import SpaceName
from mocks.standalone.served_files import Reading, ServedFiles

LOOK_S: Final = 0.25
_READINGS: Final = 4  # of one edit: what a file breaks may show once another one is as it was
_ALL_STAYS: Final = "kept the last good version of all files"
# Warnings that mean that something is left out or answers 500; an edit must not bring them.
_BROKEN: Final = frozenset({
    "contract_invalid", "contract_unsupported", "cue_unsupported", "limit_exceeded",
    "mock_examples_invalid", "mock_metadata_invalid",
})  # fmt: skip
Reloaded = Callable[[Reading], None]
Kept = Callable[[str, Sequence[FileWarning]], None]  # what stays as it was, and why


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
            broken, reading = self._read_edit()
        except PlatformError as error:
            self._kept(f"{_ALL_STAYS}: {error.detail}", error.errors)
            return
        if reading is None:
            self._kept(f"{_ALL_STAYS}: an edit breaks the suite", broken.places)
            return
        if broken.paths:
            self._kept(self._what_stays(broken.paths), broken.places)
        if reading.content.generation != self.reading.content.generation:
            self.reading = reading
            self._reloaded(reading)

    def _read_edit(self) -> tuple[_Breakage, Reading | None]:
        """Read the files, with those that an edit breaks as they were; raise PlatformError.

        Return no reading where what is broken has its cause in another file than it shows in.
        """
        collected = self.files.collect()
        good = self.reading.content.files
        broken = _Breakage()
        broken.add(collected.broken, self.files)
        for _ in range(_READINGS):
            files = _with_last_good(collected.files, good, broken.paths)
            reading = self.files.understand(files, self._base_url)
            found = _new_breakage(self.reading.warnings, reading.warnings)
            if not found:
                self.files.require_operations(reading)
                return broken, reading
            if not broken.add(found, self.files):
                break
        return broken, None

    def _what_stays(self, paths: Set[str]) -> str:
        """Say what is served of the files that an edit breaks, and of the others."""
        good = self.reading.content.files
        stay = [self.files.in_place(path) for path in sorted(paths) if path in good]
        new = [self.files.in_place(path) for path in sorted(paths) if path not in good]
        texts = [f"kept the last good version of {', '.join(stay)}"] if stay else []
        texts += [f"left out {', '.join(new)}"] if new else []
        return f"{' and '.join(texts)}; all other files are served as they are now"


@dataclass(slots=True)
class _Breakage:
    """The files that an edit breaks, by their paths in the suite, and where."""

    paths: set[str] = field(default_factory=set)
    places: list[FileWarning] = field(default_factory=list)

    def add(self, found: Sequence[FileWarning], files: ServedFiles) -> bool:
        """Add what is broken, and return whether it shows in files that were not known for it."""
        new = {files.path_of(each.file) for each in found if each.file} - self.paths
        self.paths |= new
        self.places += [each for each in found if each not in self.places]
        return bool(new)


def _with_last_good(
    files: Mapping[str, bytes], good: Mapping[str, bytes], broken: Set[str]
) -> dict[str, bytes]:
    """Return the files with broken ones as they were; new ones are left out."""
    kept = {path: content for path, content in files.items() if path not in broken}
    kept |= {path: good[path] for path in broken if path in good}
    return dict(sorted(kept.items()))


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
