"""`run shell` between pipes or a terminal and a WebSocket: slow readers, signals, absences.

With a real server: tests/integration/test_shell_command.py.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection

from partita_client import Client, websocket
from partita_client.command.program import run_words
from partita_client.command.terminal import local_terminal, terminal_session
from partita_client.command.terminal.background_call import BackgroundCall
from partita_client.command.terminal.local_terminal import LocalTerminal
from partita_client.command.terminal.terminal_session import TerminalSession
from partita_client.standard_streams import prepare_streams
from tests.client.test_websocket import peer
from tests.support.fake_partita import RUN, TOKEN, FakePartita, problem

SHELL: Final[Any] = {
    "shellId": "1", "executionId": RUN, "stepId": "api", "state": "open", "socket": "/ws/shells/1",
}  # fmt: skip
EXITED: Final = {**SHELL, "state": "ended", "exitCode": 5, "end": {"code": "exited", "detail": ""}}
PIECE: Final = 64_000
PIECES: Final = 320  # more than what sockets keep, and the client


class ServedShell:
    """Sends numbered output from the one after `after` on, and the end."""

    def __init__(self, pieces: int) -> None:
        self.pieces, self.opened, self.typed = pieces, 0, b""

    def talk(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        self.opened += 1
        after = int(parse_qs(urlsplit(connection.request.path).query)["after"][0])
        try:
            connection.send(json.dumps({"type": "session", "session": SHELL}))
            for number in range(after + 1, self.pieces + 1):
                connection.send(number.to_bytes(8) + piece(number))
            if not self.pieces:
                self.typed += receive_keys(connection)
            connection.send(json.dumps({"type": "end", "session": EXITED}))
        except ConnectionClosed:
            return


def receive_keys(connection: ServerConnection) -> bytes:
    typed = connection.recv(timeout=20)
    assert isinstance(typed, bytes)
    return typed


def piece(number: int) -> bytes:
    return number.to_bytes(4) * (PIECE // 4)


@pytest.fixture
def use_pipes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """Return what gives the command two pipes, and returns the other side of its output.

    A test calls it, as pytest sets its own streams between a fixture and a test.
    """
    reads, writes = os.pipe()
    silent, typing = os.pipe()
    with (
        os.fdopen(silent) as nothing,
        os.fdopen(typing, "w"),
        os.fdopen(writes, "w") as output,
        os.fdopen(reads),
    ):

        def use() -> int:
            monkeypatch.setattr(sys, "stdin", nothing)
            monkeypatch.setattr(sys, "stdout", output)
            return reads

        yield use


def run_session(port: int, terminal: LocalTerminal | None = None) -> tuple[Any, LocalTerminal]:
    terminal = terminal or LocalTerminal()
    with Client(f"http://127.0.0.1:{port}", token=TOKEN) as client:
        ended = TerminalSession(client=client, terminal=terminal, shell=SHELL).run()
    return ended, terminal


def test_a_reader_that_waits_loses_neither_the_shell_nor_output(
    use_pipes: Callable[[], int], monkeypatch: pytest.MonkeyPatch
):
    """As `… -- cat big | less`: connections are made anew before a server misses its pongs."""
    pipe = use_pipes()
    monkeypatch.setattr(terminal_session, "UNREAD_S", 0.1)
    shell, received, kept = ServedShell(PIECES), bytearray(), list[int]()
    seen = LocalTerminal.wait

    def wait(terminal: LocalTerminal, *words: Any, **more: Any) -> bytes:
        kept.append(terminal.unwritten)
        return seen(terminal, min(words[0], 0.05), **more)

    def read_late() -> None:
        while shell.opened < 4:
            threading.Event().wait(0.02)
        while len(received) < PIECE * PIECES and (some := os.read(pipe, 65_536)):
            received.extend(some)

    monkeypatch.setattr(LocalTerminal, "wait", wait)
    reader = threading.Thread(target=read_late, daemon=True)
    reader.start()
    with peer(shell.talk) as port:
        ended, _ = run_session(port)
    reader.join(20)

    assert ended == EXITED
    assert received == b"".join(piece(number) for number in range(1, PIECES + 1))
    assert shell.opened >= 4
    assert max(kept) < 4 * 2**20


def test_the_program_of_a_closed_input_gets_its_end(
    use_pipes: Callable[[], int], monkeypatch: pytest.MonkeyPatch
):
    """A standard input that is closed (`<&-`) is an empty pipe: the program gets Ctrl-D."""
    use_pipes()
    monkeypatch.setattr(sys, "stdin", None)
    shell = ServedShell(0)
    prepare_streams()

    with peer(shell.talk) as port:
        ended, _ = run_session(port)
    sys.stdin.close()

    assert ended == EXITED
    assert shell.typed == b"\x04"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_no_success(
    signed_in: FakePartita, capfd: Any, use_pipes: Callable[[], int], number: signal.Signals
):
    """Nor is a server asked that is away: the shell ends by itself."""
    use_pipes()

    def end_command(*_: Any) -> tuple[int, Any]:
        os.kill(os.getpid(), number)
        return problem(503, "busy", "away")

    signed_in.answers[f"POST /api/v1/executions/{RUN}/shells"] = lambda *_: (201, SHELL)
    signed_in.answers["GET /ws/shells/1"] = end_command
    signed_in.answers[f"DELETE /api/v1/executions/{RUN}/shells/1"] = lambda *_: problem(503, "busy")

    assert run_words(["run", "shell", RUN, "api"]) == 128 + number

    said = capfd.readouterr().err
    assert f"ended by {number.name}: the server is away" in said
    assert f"open another one: partita run shell {RUN} api" in said
    assert signed_in.count(f"DELETE /api/v1/executions/{RUN}/shells/1") == 0


END_SHELL: Final = f"DELETE /api/v1/executions/{RUN}/shells/1"


def test_a_shell_whose_output_nobody_reads_any_more_is_ended(
    signed_in: FakePartita, monkeypatch: Any, use_pipes: Callable[[], int]
):
    """As `… -- cat big | head -1`."""

    def run(_session: TerminalSession) -> None:
        raise BrokenPipeError

    use_pipes()
    monkeypatch.setattr(TerminalSession, "run", run)
    signed_in.answers[f"POST /api/v1/executions/{RUN}/shells"] = lambda *_: (201, SHELL)
    signed_in.answers[END_SHELL] = lambda *_: (204, None)

    assert run_words(["run", "shell", RUN, "api"]) == 141
    assert signed_in.count(END_SHELL) == 1


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (404, "left: the shell has ended"),
        (403, "left: the server did not end the shell (no), and ends the shell after a minute"),
    ],
)
def test_who_leaves_is_told_what_becomes_of_the_shell(
    signed_in: FakePartita,
    monkeypatch: Any,
    capfd: Any,
    use_pipes: Callable[[], int],
    status: int,
    said: str,
):
    use_pipes()
    monkeypatch.setattr(TerminalSession, "run", lambda _session: None)
    monkeypatch.setattr(TerminalSession, "is_connected", True)
    signed_in.answers[f"POST /api/v1/executions/{RUN}/shells"] = lambda *_: (201, SHELL)
    signed_in.answers[END_SHELL] = lambda *_: problem(status, "code", "no")

    assert run_words(["run", "shell", RUN, "api"]) == 0
    assert said in capfd.readouterr().err


class Person(LocalTerminal):
    """A person at a terminal who types when a note has certain words, or at once for none."""

    def __init__(self, side: int, types: dict[str, bytes]) -> None:
        super().__init__()
        self.side, self.types, self.notes, self.rung = side, types, list[str](), threading.Event()
        self.has_typed = threading.Event()

    def note(self, words: str) -> None:
        self.notes.append(words)
        self.read(words)

    def read(self, words: str) -> None:
        for said in [each for each in self.types if each in words]:
            os.write(self.side, self.types.pop(said))
            self.has_typed.set()

    def wait(self, *words: Any, **more: Any) -> bytes:
        self.read("")
        return super().wait(*words, **more)

    def ring(self) -> None:
        self.rung.set()


@pytest.fixture
def seat(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[dict[str, bytes]], Person]]:
    """Return what gives the command a terminal, and returns the person at it."""
    side, other = os.openpty()
    with os.fdopen(side, "wb"), os.fdopen(other, "r+b", buffering=0) as terminal:

        def sit(types: dict[str, bytes]) -> Person:
            monkeypatch.setattr(sys, "stdin", terminal)
            monkeypatch.setattr(sys, "stdout", terminal)
            return Person(side, types)

        yield sit


Seat = Callable[[dict[str, bytes]], Person]


class ShellWithCut:
    """Cuts its first connection, and lets nobody in again before `is_back`."""

    def __init__(self, is_back: threading.Event) -> None:
        self.is_back, self.opened, self.typed = is_back, 0, b""

    def let_in(self, *_: Any) -> None:
        if self.opened:
            self.is_back.wait(60)

    def talk(self, connection: ServerConnection) -> None:
        self.opened += 1
        try:
            connection.send(json.dumps({"type": "session", "session": SHELL}))
            if self.opened == 1:
                connection.close(1012)  # a restart; what was sent before it arrives
                return
            with suppress(TimeoutError):  # what did not come is missed by the test
                while not self.typed.endswith(b"."):
                    self.typed += receive_keys(connection)
            connection.send(json.dumps({"type": "end", "session": EXITED}))
        except ConnectionClosed:
            return


@pytest.mark.parametrize(
    ("keys", "exit_code"), [(b"half a line\r~.", 0), (b"\x03", 130)], ids=["~.", "Ctrl-C"]
)
def test_a_person_leaves_at_once_while_a_connection_is_opened(
    signed_in: FakePartita, monkeypatch: Any, capfd: Any, seat: Seat, keys: bytes, exit_code: int
):
    """The server takes the connection and says nothing, for longer than anybody waits."""
    person, is_over = seat({"leaves": keys}), threading.Event()
    monkeypatch.setattr(local_terminal, "LocalTerminal", lambda: person)
    monkeypatch.setattr(websocket, "_OPENED_WITHIN_S", 120.0)
    signed_in.answers[f"POST /api/v1/executions/{RUN}/shells"] = lambda *_: (201, SHELL)
    signed_in.answers["GET /ws/shells/1"] = lambda *_: (is_over.wait(120), problem(503, "busy"))[1]
    began = time.monotonic()

    try:
        assert run_words(["run", "shell", RUN, "api"]) == exit_code
    finally:
        is_over.set()

    assert time.monotonic() - began < 60
    assert person.notes == [
        f"{signed_in.url} has not answered yet; connecting (~. or Ctrl-C leaves)"
    ]
    said = capfd.readouterr().err
    assert "left: the server is away, and ends the shell after a minute" in said
    assert f"open another one: partita run shell {RUN} api" in said
    assert signed_in.count(f"DELETE /api/v1/executions/{RUN}/shells/1") == 0


def test_what_is_typed_while_it_reconnects_is_sent_once_it_has(seat: Seat):
    person = seat({"reconnecting": b"typed meanwhile."})
    shell = ShellWithCut(person.has_typed)

    with peer(shell.talk, process_request=shell.let_in) as port:
        ended, _ = run_session(port, person)

    assert (ended, shell.typed) == (EXITED, b"typed meanwhile.")
    [away, back] = person.notes[-2:]
    assert "reconnecting, no output will be missed (~. or Ctrl-C leaves)" in away
    assert back == "connected"


def test_more_than_is_kept_while_it_reconnects_is_dropped_with_a_bell(
    seat: Seat, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(terminal_session, "_HELD_WHILE_AWAY", 4)
    person = seat({"reconnecting": b"abc. and more"})
    shell = ShellWithCut(person.rung)

    with peer(shell.talk, process_request=shell.let_in) as port:
        ended, _ = run_session(port, person)

    assert (ended, shell.typed) == (EXITED, b"abc.")
    assert sum("the rest is lost" in words for words in person.notes) == 1


def test_ctrl_c_is_a_key_of_the_program_where_no_absence_was_told(
    seat: Seat, monkeypatch: pytest.MonkeyPatch
):
    """It is typed while the connection is opened, of which the person knows nothing."""
    monkeypatch.setattr(terminal_session, "_SILENT_S", 60.0)
    person, shell = seat({"": b"\x03"}), ServedShell(0)

    with peer(shell.talk) as port:
        ended, _ = run_session(port, person)

    assert (ended, shell.typed, person.notes) == (EXITED, b"\x03", [])


def test_a_call_that_is_given_up_undoes_its_result():
    may_end, undone = threading.Event(), threading.Event()

    with closing(BackgroundCall(lambda: may_end.wait(60), undo=lambda _: undone.set())) as waited:
        assert not waited.has_ended
    may_end.set()

    assert undone.wait(60)
