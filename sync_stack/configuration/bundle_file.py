"""The bundle's file: read at the start, validated, and read again when it changes.

A changed file replaces the bundle as a whole, or is refused and the previous bundle stays in use.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from cue import CueError, evaluate
from kernel.background import PeriodicThread
from readers.diagnostics import Diagnostic
from sync_stack.configuration.conf import BundleSettings
from sync_stack.configuration.metrics import reloads
from sync_stack.configuration.startup import StartRefused
from sync_stack.core.bundle.diagnostics import Location, complaint_at, sort_diagnostics
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.validation import BundleReading, read_bundle
from sync_stack.core.file_errors import ShapingError
from sync_stack.core.formats import formats

MAX_BYTES: Final = 4 * 2**20
_DATA_FORMATS: Final = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleText:
    """The content of a bundle's file, or the `problem` of reading it.

    `file` names it in messages; its suffix selects the format.
    """

    file: str
    data: bytes = b""
    problem: str = ""
    path: str = ""  # the path that was read

    @property
    def digest(self) -> str:
        """The SHA-256 of the content in hex; for a problem its text, which no content has."""
        return hashlib.sha256(self.data).hexdigest() if not self.problem else self.problem


def read_text(path: Path, *, name: str = "") -> BundleText:
    """Read at most 4 MiB; `name` replaces the path in messages."""
    file_name = name or str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        return BundleText(file=file_name, problem=f"cannot be read: {error.strerror}")
    if len(data) > MAX_BYTES:
        return BundleText(file=file_name, problem=f"larger than {MAX_BYTES} bytes")
    return BundleText(file=file_name, data=data, path=str(path))


def bundle_of(
    text: BundleText, *, production: bool = False, strict: bool = False, cue_binary: str = ""
) -> BundleReading:
    """Return the bundle in the text, or its errors."""
    file = text.file
    if text.problem:
        return _refuse([Diagnostic(file=file, code="syntax_error", message=text.problem)])
    try:
        if name := _DATA_FORMATS.get(Path(file).suffix.lower()):
            tree = formats[name].parse(text.data, file=file)
        else:  # everything that is not named as data is CUE
            tree = evaluate(_decode(text), file=file, path=text.path, binary=cue_binary)
    except CueError as error:
        return _refuse(error.diagnostics)
    except ShapingError as error:
        at = Location(path="", line=error.line, column=error.column)
        return _refuse([complaint_at(file, at, "syntax_error", error.detail)])
    return read_bundle(tree, file=file, production=production, strict=strict, digest=text.digest)


def _decode(text: BundleText) -> str:
    try:
        return text.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.data[: error.start].count(b"\n") + 1
        raise ShapingError("parse_error", "not UTF-8", file=text.file, line=line) from None


def _refuse(complaints: list[Diagnostic]) -> BundleReading:
    return BundleReading(bundle=None, complaints=sort_diagnostics(complaints))


log: Final = logging.getLogger("partita.sync.bundle")


class Reload(StrEnum):
    """The result of checking the file."""

    UNCHANGED = "unchanged"
    OK = "ok"
    REJECTED = "rejected"


class _Wake(Enum):
    CHECK = "check"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleHooks:
    """The callbacks of a process for a bundle.

    `check` returns errors of a valid bundle; `prepare` is called right before a bundle is used.
    """

    check: Callable[[Bundle], Sequence[Diagnostic]] = lambda _bundle: ()
    prepare: Callable[[Bundle], None] = lambda _bundle: None


class BundleFile:
    """The valid bundle in use, and its reload. Threads read `bundle` once for each use."""

    def __init__(
        self,
        settings: BundleSettings,
        bundle: Bundle,
        warnings: Sequence[Diagnostic] = (),
        needs: BundleHooks = BundleHooks(),
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
    def load(cls, settings: BundleSettings, needs: BundleHooks = BundleHooks()) -> BundleFile:
        """Load the bundle. Raises StartRefused with a line for every error."""
        text = read_text(settings.path, name=settings.name)
        reading = _check(text, settings, needs)
        if reading.bundle is None:
            raise StartRefused([str(entry) for entry in reading.errors])
        for entry in reading.warnings:
            log.warning("%s", entry, extra={"event": "bundle_warning", "code": entry.code})
        needs.prepare(reading.bundle)
        return cls(settings, reading.bundle, reading.warnings, needs)

    def on_change(self, listener: Callable[[Bundle], None]) -> None:
        """Call `listener` with each new bundle, on the reading thread; it must not raise."""
        self._listeners.append(listener)

    def reload(self) -> Reload:
        """Use the content of the file if it changed and is valid; count and log the result."""
        with self._reloading:
            text = read_text(self.settings.path, name=self.settings.name)
            if text.digest == self.bundle.digest:
                self._rejected = ()
                return Reload.UNCHANGED
            reading = _check(text, self.settings, self._needs)
            if reading.bundle is None:
                return self._reject(reading)
            self._take(reading.bundle, reading)
            return Reload.OK

    def watch(self) -> None:
        """Check the file every `reload_interval_s` (0: only after `wake`), on a thread."""
        self._watcher = PeriodicThread("bundle", self.reload, self._wait, ended=self._ended)
        self._watcher.start()

    def wake(self) -> None:
        """Check the file now. Signal handlers may call it."""
        self._wakes.put(_Wake.CHECK)

    def stop(self) -> None:
        self._ended.set()
        self._wakes.put(_Wake.END)
        if self._watcher:
            self._watcher.join(5)

    def _wait(self) -> bool:
        """Wait for a wake-up or the interval; return True at the end."""
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
        """Refuse the content; log the same errors only once."""
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


def _check(text: BundleText, settings: BundleSettings, needs: BundleHooks) -> BundleReading:
    reading = bundle_of(
        text,
        production=settings.production,
        strict=settings.strict,
        cue_binary=settings.cue_binary,
    )
    if reading.bundle is None:
        return reading
    complaints = sort_diagnostics([*reading.complaints, *needs.check(reading.bundle)])
    failed = any(entry.severity == "error" for entry in complaints)
    return BundleReading(bundle=None if failed else reading.bundle, complaints=complaints)
