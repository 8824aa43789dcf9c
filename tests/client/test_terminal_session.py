"""`run shell` between pipes and a WebSocket: a slow reader, an end of input, signals.

With a real server: tests/integration/test_shell_command.py.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection

from partita_client import Client
from partita_client.command.program import run_words
from partita_client.command.terminal import terminal_session
from partita_client.command.terminal.local_terminal import LocalTerminal
from partita_client.command.terminal.terminal_session import TerminalSession
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
                typed = connection.recv(timeout=20)
                assert isinstance(typed, bytes)
                self.typed += typed
            connection.send(json.dumps({"type": "end", "session": EXITED}))
        except ConnectionClosed:
            return


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


def run_session(port: int) -> tuple[Any, LocalTerminal]:
    terminal = LocalTerminal()
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

    with peer(shell.talk) as port:
        ended, _ = run_session(port)

    assert ended == EXITED
    assert shell.typed == b"\x04"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_no_success(
    signed_in: FakePartita, capfd: Any, use_pipes: Callable[[], int], number: signal.Signals
):
    """Nor does the command wait for a server that is away: the shell ends by itself."""
    use_pipes()

    def end_command(*_: Any) -> tuple[int, Any]:
        os.kill(os.getpid(), number)
        return problem(503, "busy", "away")

    signed_in.answers[f"POST /api/v1/executions/{RUN}/shells"] = lambda *_: (201, SHELL)
    signed_in.answers["GET /ws/shells/1"] = end_command
    signed_in.answers[f"DELETE /api/v1/executions/{RUN}/shells/1"] = lambda *_: problem(503, "busy")

    assert run_words(["run", "shell", RUN, "api"]) == 128 + number

    assert f"ended by {number.name}" in capfd.readouterr().err
    assert signed_in.count(f"DELETE /api/v1/executions/{RUN}/shells/1") == 1
