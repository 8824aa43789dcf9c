"""`mock record`: a local proxy that writes examples."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from apps.mocks.imported_files import plan_write, write
from apps.mocks.management.verbs.imports import add_target, target_folder
from apps.operations.api import CommandOptions, ExitCode, VerbCommand, print_json
from kernel.errors import InvalidInput
from mocks.proxies.recorder import KeptCalls, RecordingProxy
from surfaces.recordings import MockFiles, mock_files

EXAMPLES: Final = """\
  partita mock record --to https://api.example.org --out ./recorded
  partita mock record --to http://localhost:3000 --suite shop --surface shop --port 8091"""
DEFAULT_PORT: Final = 8091
_EVERY_S: Final = 1.0


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    verb = command.add_verb(
        verbs, "record", record, "forward calls to an API and write them as mocks, until Ctrl-C"
    )
    verb.add_argument("--to", required=True, metavar="URL", help="the API that answers")
    add_target(verb)
    verb.add_argument("--surface", default="", help="the API surface (default: the API's host)")
    verb.add_argument("--port", type=int, default=DEFAULT_PORT, help=f"default: {DEFAULT_PORT}")
    verb.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1")
    verb.add_argument("--force", action="store_true", help="replace files that differ")


def record(options: CommandOptions) -> int:
    parts = urlsplit(options["to"])
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise InvalidInput(f"--to {options['to']!r}: expected http(s)://host without credentials")
    writer = _RecordingWriter(target_folder(options), options["surface"], parts.netloc)
    if writer.has_mocks() and not options["force"]:
        sys.stderr.write(f"{writer.folder} has such mocks already; --force replaces them\n")
        return ExitCode.CONFLICT
    kept = KeptCalls()
    address = (options["host"], options["port"])
    try:
        proxy = RecordingProxy(address, options["to"], kept, meanwhile=lambda: writer.write(kept))
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"cannot listen on --port {options['port']}: {reason}") from None
    sys.stderr.write(f"call {proxy.url} instead of {proxy.target}; Ctrl-C ends the recording\n")
    with proxy, suppress(KeyboardInterrupt):  # the usual end
        proxy.serve_forever(_EVERY_S)
    writer.write(kept)
    return _report(writer, kept.recording.left_out, options)


class _RecordingWriter:
    """Writes the mocks of all calls so far, when there are new ones, and says what is left out."""

    def __init__(self, folder: Path, surface: str, source: str) -> None:
        self.folder = folder
        self.surface = surface
        self.source = source
        self._count = -1
        self.made = MockFiles()

    def has_mocks(self) -> bool:
        """Return whether the folder has mocks of the surface."""
        home = self.folder / "mock" / self.surface
        return home.is_dir() and any(home.iterdir())

    def write(self, kept: KeptCalls) -> None:
        for note in kept.take_notes():
            sys.stderr.write(f"left out: {''.join(filter(str.isprintable, note))}\n")
        calls = kept.calls()
        if len(calls) != self._count:
            self._count = len(calls)
            self.made = mock_files(calls, self.surface, source=self.source)
            files = {path: text.encode() for path, text in self.made.files.items()}
            write(plan_write(files, self.folder))


def _report(writer: _RecordingWriter, left_out: Counter[str], options: CommandOptions) -> int:
    made = writer.made
    missing = left_out + made.left_out
    if options["output"] == "json":
        print_json({
            "folder": str(writer.folder), "files": sorted(made.files),
            "operations": made.operations, "examples": made.examples, "leftOut": dict(missing),
        })  # fmt: skip
        return ExitCode.OK
    counted = f"{made.operations} operations, {made.examples} examples"
    sys.stdout.write(f"{writer.folder}: {counted}\n")
    for reason, count in missing.items():
        sys.stdout.write(f"left out, {count} times: {reason}\n")
    return ExitCode.OK
