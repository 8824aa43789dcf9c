"""`partita run shell RUN STEP [-- COMMAND…]`: a terminal inside a step, beside the store."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from django.db import DatabaseError

from apps.accounts import api as accounts
from apps.operations.api import ExitCode, VerbCommand, printable, trail
from apps.shells import api
from apps.shells.domain.documents import ShellDocument
from apps.shells.domain.local_terminal import TypedEscapes
from apps.shells.domain.records import TerminalSize, output_bytes
from apps.shells.domain.states import ShellState
from apps.shells.management.terminal import HungUp, LocalTerminal
from apps.shells.services.clients import (
    count_untaken,
    describe_shell,
    join_shell,
    keep_attached,
    type_into,
)
from apps.shells.services.endings import COMMAND_LINE
from apps.shells.services.sessions import ShellWish, end_shell, open_shell
from apps.streams import api as streams
from kernel.errors import InvalidInput, PlatformError

T = TypeVar("T")
Options = Mapping[str, Any]
_BEAT_S: Final = 1.0
_STORE_WITHIN_S: Final = 10.0
_STORE_PAUSE_S: Final = 0.2
_MOST_RECORDS: Final = 64
_SECRETS: Final = "It sees the secrets of the step as the step had them; output is not masked."
_DESCRIPTION: Final = f"""\
Open a shell in a service that runs, or in any step of a run whose environment is kept
(`partita run launch … --keep 30m`): an ended step is entered as a copy, with its files as it left
them. {_SECRETS} Keys go to the program, Ctrl-C as well; `~.` at the beginning of a line leaves.
Input may be a pipe. The exit code is that of the program."""


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    shell = command.add_verb(verbs, "shell", enter_step, "open a shell in a step")
    shell.description = _DESCRIPTION
    shell.add_argument("run", type=_run_id_of, metavar="RUN")
    shell.add_argument("step", metavar="STEP")
    shell.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND",
        help="a program with its arguments instead of a shell",
    )


def _run_id_of(text: str) -> str:
    """A run's id, or the address of its page."""
    return text.rstrip("/").rsplit("/", 1)[-1].split("?")[0].split("#")[0]


def enter_step(options: Options) -> int:
    """Open a session, pass bytes until it ends, and return the exit code of the program."""
    command = options["command"]
    if options["output"] == "json":
        raise InvalidInput("--output: a shell has no document to print; leave it out")
    if command[:1] == ["--"]:
        command = command[1:]
    if command and command[0].startswith("-"):
        raise InvalidInput(f"{command[0]!r} is no program: options come before RUN")
    terminal = LocalTerminal()
    size = terminal.size()
    wish = ShellWish(
        step_id=options["step"],
        command=tuple(command),
        columns=size.columns,
        rows=size.rows,
    )
    if terminal.is_typed:
        sys.stderr.write(f"{_SECRETS} ~. leaves.\n")
    try:
        return TerminalClient(terminal, options["run"], wish).run()
    finally:
        trail.close()


class TerminalClient:
    """Passes bytes between this terminal and a session, which ends with the command."""

    def __init__(self, terminal: LocalTerminal, run_id: str, wish: ShellWish) -> None:
        self._terminal = terminal
        self._principal = accounts.operator()
        opened = open_shell(self._principal, run_id, wish, address=COMMAND_LINE)
        self._run_id = run_id
        self._shell = join_shell(self._principal, opened["shellId"])
        self._escapes = TypedEscapes()
        self._pace = api.Pace(time.monotonic())
        self._read_id, self._beat_at = 0, 0.0
        self._state: str = opened["state"]

    def run(self) -> int:
        left = False
        try:
            with self._terminal.session(self._shell.topic):
                left = self._pass_bytes()
        except HungUp:
            left = True
        finally:
            with suppress(PlatformError, DatabaseError):
                end_shell(self._principal, self._run_id, str(self._shell.pk))
        if left:
            sys.stderr.write("left: the shell has ended\n")
            return ExitCode.OK
        return self._report_end(_patiently(self._describe))

    def _pass_bytes(self) -> bool:
        """Pass bytes until the session ends; return whether the person left before."""
        while True:
            document = _patiently(self._describe)  # before the output, so that none is missed
            self._note_state(document)
            has_output = self._show_output()
            if document["state"] == ShellState.ENDED:
                return False
            self._beat()
            is_open = document["state"] == ShellState.OPEN
            pause_s = 0.0 if has_output else self._pace.pause_s(time.monotonic())
            typed, leaves = self._escape(self._terminal.wait(pause_s, for_input=is_open))
            if leaves:
                return True
            self._type(typed)

    def _describe(self) -> ShellDocument:
        return describe_shell(self._principal, self._shell.pk)

    def _note_state(self, document: ShellDocument) -> None:
        """Say what there is to know of a session that has just opened."""
        if document["state"] == self._state:
            return
        self._state = document["state"]
        if (notice := document.get("notice")) and self._terminal.is_typed:
            sys.stderr.write(f"{printable(notice)}\r\n")
            sys.stderr.flush()

    def _show_output(self) -> bool:
        chunks = _patiently(
            lambda: streams.read(self._shell.topic, after=self._read_id, limit=_MOST_RECORDS)
        )
        for chunk in chunks:
            for record in chunk.records:
                self._terminal.show(output_bytes(record))
            self._read_id = chunk.last
        if chunks:
            self._pace.note_activity(time.monotonic())
        return bool(chunks)

    def _beat(self) -> None:
        now = time.monotonic()
        if now - self._beat_at >= _BEAT_S:
            self._beat_at = now
            _patiently(lambda: keep_attached(self._shell.pk, read_id=self._read_id))

    def _escape(self, typed: bytes) -> tuple[bytes, bool]:
        return self._escapes.feed(typed) if self._terminal.is_typed else (typed, False)

    def _type(self, typed: bytes) -> None:
        pieces: list[bytes | TerminalSize] = [typed] if typed else []
        if new_size := self._terminal.take_new_size():
            pieces.insert(0, new_size)
        if not pieces:
            return
        self._pace.note_activity(time.monotonic())
        last = _patiently(lambda: type_into(self._shell.pk, pieces))
        if last % _MOST_RECORDS:
            return
        while _patiently(lambda: count_untaken(self._shell.pk)) > _MOST_RECORDS:
            self._show_output()
            self._beat()
            time.sleep(_STORE_PAUSE_S)  # the runner takes it

    def _report_end(self, document: ShellDocument) -> int:
        end = document.get("end")
        if end is None or end["code"] == api.EndCode.EXITED:
            return document.get("exitCode", ExitCode.ERROR)
        sys.stderr.write(f"the shell has ended: {printable(end['detail'])}\n")
        return document.get("exitCode") or ExitCode.UNAVAILABLE


def _patiently(work: Callable[[], T]) -> T:
    """Return `work()`; a store that is away for less than 10 s ends no shell."""
    deadline = time.monotonic() + _STORE_WITHIN_S
    while True:
        try:
            streams.release_stale_connection()
            return work()
        except (DatabaseError, streams.DatastoreUnavailable):
            if time.monotonic() >= deadline:
                raise
            time.sleep(_STORE_PAUSE_S)
