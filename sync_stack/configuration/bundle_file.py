"""The bundle in use: read at the start, read again when its file changes, never half.

A new content is either taken whole or refused; then everything goes on with the bundle before.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

from kernel.background import PeriodicThread
from readers.diagnostics import Diagnostic
from sync_stack.configuration.conf import BundleSettings
from sync_stack.configuration.metrics import reloads
from sync_stack.configuration.reading import BundleText, bundle_of, read_text
from sync_stack.configuration.startup import StartRefused
from sync_stack.core.bundle.diagnostics import listed
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.validation import BundleReading

log: Final = logging.getLogger("partita.sync.bundle")


class Reload(StrEnum):
    """What looking at the file led to."""

    UNCHANGED = "unchanged"
    OK = "ok"
    REJECTED = "rejected"


class _Wake(Enum):
    LOOK = "look"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a process does with a bundle beside validation.

    `check` looks at a valid one and may refuse it; `prepare` is called with one that is accepted,
    right before it is in use.
    """

    check: Callable[[Bundle], Sequence[Diagnostic]] = lambda _bundle: ()
    prepare: Callable[[Bundle], None] = lambda _bundle: None


class BundleFile:
    """`bundle` is always a valid one. Safe for threads: readers take the attribute once a use."""

    def __init__(
        self,
        settings: BundleSettings,
        bundle: Bundle,
        warnings: Sequence[Diagnostic] = (),
        needs: Needs = Needs(),
    ) -> None:
        self.settings = settings
        self.bundle = bundle
        self.warnings = tuple(warnings)
        self._needs = needs
        self._rejected: tuple[Diagnostic, ...] = ()
        self._reloading = threading.Lock()
        self._listeners: list[Callable[[Bundle], None]] = []
        self._wakes: SimpleQueue[_Wake] = SimpleQueue()
        self._ended = threading.Event()
        self._watcher: PeriodicThread | None = None

    @classmethod
    def opened(cls, settings: BundleSettings, needs: Needs = Needs()) -> BundleFile:
        """Raises StartRefused with a line for every error."""
        text = read_text(settings.path, name=settings.name)
        reading = _checked(text, settings, needs)
        if reading.bundle is None:
            raise StartRefused([str(entry) for entry in reading.errors])
        for entry in reading.warnings:
            log.warning("%s", entry, extra={"event": "bundle_warning", "code": entry.code})
        needs.prepare(reading.bundle)
        return cls(settings, reading.bundle, reading.warnings, needs)

    def on_change(self, listener: Callable[[Bundle], None]) -> None:
        """Called with each new bundle, on the thread that read it; it must not raise."""
        self._listeners.append(listener)

    def reload(self) -> Reload:
        """Take the file's content if it changed and is valid. Counts and logs what happened."""
        with self._reloading:
            text = read_text(self.settings.path, name=self.settings.name)
            if text.digest == self.bundle.digest:
                self._rejected = ()
                return Reload.UNCHANGED
            reading = _checked(text, self.settings, self._needs)
            if reading.bundle is None:
                return self._reject(reading)
            self._take(reading.bundle, reading)
            return Reload.OK

    def watch(self) -> None:
        """Look at the file every `reload_interval_s` (0: only after `wake`), on a thread."""
        self._watcher = PeriodicThread("bundle", self.reload, self._is_over, ended=self._ended)
        self._watcher.start()

    def wake(self) -> None:
        """Look at the file now. May be called from a signal handler."""
        self._wakes.put(_Wake.LOOK)

    def stop(self) -> None:
        self._ended.set()
        self._wakes.put(_Wake.END)
        if self._watcher:
            self._watcher.join(5)

    def reload_on_hangup(self) -> None:
        """SIGHUP wakes the watch. Call on the main thread."""
        signal.signal(signal.SIGHUP, self._on_hangup)

    def _on_hangup(self, _number: int, _frame: FrameType | None) -> None:
        self.wake()

    def _is_over(self) -> bool:
        """Wait for a wake or the interval; True at the end."""
        try:
            wake = self._wakes.get(timeout=self.settings.reload_interval_s or None)
        except Empty:
            return False
        return wake is _Wake.END

    def _take(self, bundle: Bundle, reading: BundleReading) -> None:
        self._needs.prepare(bundle)
        self.bundle, self.warnings, self._rejected = bundle, reading.warnings, ()
        reloads.labels(outcome="ok").inc()
        log.info(
            "the bundle was read again: %d rules",
            len(bundle.rules),
            extra={"event": "bundle_reloaded", "bundle_digest": bundle.digest},
        )
        for listener in self._listeners:
            listener(bundle)

    def _reject(self, reading: BundleReading) -> Reload:
        """Said once for the same errors, however often the file is looked at."""
        if reading.errors != self._rejected:
            self._rejected = reading.errors
            reloads.labels(outcome="rejected").inc()
            log.error(
                "the changed bundle is refused, the one before stays: %s",
                reading.errors[0],
                extra={
                    "event": "bundle_rejected",
                    "errors": [str(entry) for entry in reading.errors],
                    "bundle_digest": self.bundle.digest,
                },
            )
        return Reload.REJECTED


def _checked(text: BundleText, settings: BundleSettings, needs: Needs) -> BundleReading:
    reading = bundle_of(
        text,
        production=settings.production,
        strict=settings.strict,
        cue_binary=settings.cue_binary,
    )
    if reading.bundle is None:
        return reading
    complaints = listed([*reading.complaints, *needs.check(reading.bundle)])
    failed = any(entry.severity == "error" for entry in complaints)
    return BundleReading(bundle=None if failed else reading.bundle, complaints=complaints)
