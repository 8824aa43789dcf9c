"""`partita run shell` on a terminal and in a pipe; the runner is in the process of the test.

(reference: control-plane 11.7)
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.executions.models import Execution
from apps.shells.models import ShellSession
from tests.apps.executions_rest.conftest import Caller
from tests.apps.shells import conftest as shells
from tests.apps.shells.conftest import await_shell, await_state, keep_run
from tests.support.browser import Server
from tests.support.fake_shells import RuntimeWithShells
from tests.support.processes import ROOT, until

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
ada, admin = shells.ada, shells.admin
runtime, start_runner = shells.runtime, shells.start_runner


@pytest.fixture
def run(ada: Caller, admin: Caller, runtime: RuntimeWithShells, start_runner: Any) -> Execution:
    run = keep_run(ada)
    runtime.give_unit(run.run_id, "seed")
    runtime.notice = "a copy of the ended step"
    start_runner(runtime)
    return run


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return Server(tmp_path).environment | {"TERM": "xterm-256color"}


def command(run_id: str, *words: str) -> list[str]:
    return [sys.executable, "manage.py", "run", "shell", run_id, "seed", *words]


class PersonAtTerminal:
    """The command on a terminal of its own."""

    def __init__(self, argv: list[str], environment: dict[str, str]) -> None:
        self.side, other = pty.openpty()
        self.resize(100, 30)
        self.before = termios.tcgetattr(other)
        self._other = other
        self.process = subprocess.Popen(
            argv, cwd=ROOT, env=environment, stdin=other, stdout=other, stderr=other,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no thread holds a lock
        )  # fmt: skip
        self.text = b""

    def type(self, keys: bytes) -> None:
        os.write(self.side, keys)

    def await_text(self, text: bytes) -> None:
        deadline = time.monotonic() + 60
        while text not in self.text:
            assert time.monotonic() < deadline, self.text
            if select.select([self.side], [], [], 0.2)[0]:
                self.text += os.read(self.side, 65536)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def attributes(self) -> list[Any]:
        return termios.tcgetattr(self._other)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for descriptor in (self.side, self._other):
            os.close(descriptor)


@pytest.fixture
def person(run: Execution, environment: dict[str, str]) -> Iterator[PersonAtTerminal]:
    person = PersonAtTerminal(command(run.run_id), environment)
    yield person
    person.close()


def test_a_person_types_and_the_program_answers(
    person: PersonAtTerminal, runtime: RuntimeWithShells, run: Execution
):
    person.await_text(b"$ ")
    assert b"secrets of the step as the step had them" in person.text
    assert b"a copy of the ended step" in person.text
    shell_id = str(ShellSession.objects.get().pk)
    assert (await_shell(runtime, shell_id).request.columns) == 100
    person.type(b"hello\r")
    person.await_text(b"said: hello")
    person.type(b"\x03")
    until(lambda: b"\x03" in runtime.opened[shell_id].written, within_s=20, what="Ctrl-C arrives")
    person.resize(132, 50)
    until(
        lambda: runtime.opened[shell_id].request.columns == 132,
        within_s=20,
        what="the size arrives",
    )
    runtime.opened[shell_id]._line.clear()
    person.type(b"exit 5\r")

    assert person.process.wait(30) == 5
    assert person.attributes() == person.before
    assert ShellSession.objects.get().end_code == "exited"


def test_tilde_dot_leaves_and_restores_the_terminal(
    person: PersonAtTerminal, runtime: RuntimeWithShells
):
    person.await_text(b"$ ")
    shell_id = str(ShellSession.objects.get().pk)
    shell = await_shell(runtime, shell_id)
    person.type(b"x\r")
    person.await_text(b"said: x")
    shell.print(b"\x1b[?1049h\x1b[?25lfull screen")
    person.type(b" \r")
    person.await_text(b"full screen")
    person.type(b"~.")
    person.await_text(b"left: the shell has ended")

    assert person.process.wait(30) == 0
    assert b"\x1b[?1049l\x1b[?25h" in person.text
    assert person.attributes() == person.before
    assert await_state(shell_id, "ended").end_code == "ended_by_user"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_shell_and_restores_the_terminal(
    person: PersonAtTerminal, number: signal.Signals
):
    person.await_text(b"$ ")
    assert person.attributes() != person.before

    person.process.send_signal(number)

    person.process.wait(30)
    assert person.attributes() == person.before
    assert ShellSession.objects.get().state == "ended"


def test_input_may_be_a_pipe(run: Execution, environment: dict[str, str]):
    done = subprocess.run(
        command(run.run_id),
        env=environment,
        cwd=ROOT,
        input=b"hello\nexit 3\n",
        capture_output=True,
        check=False,
    )

    assert done.returncode == 3, done.stderr
    assert b"said: hello\n" in done.stdout
    assert b"\r" not in done.stdout
    assert done.stderr == b""


def test_the_end_of_a_pipe_is_the_end_of_the_input(run: Execution, environment: dict[str, str]):
    done = subprocess.run(
        command(run.run_id, "--", "cat", "-n"), env=environment, cwd=ROOT, input=b"one\n",
        capture_output=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, b"")
    assert ShellSession.objects.get().command == ["cat", "-n"]


def test_what_cannot_be_opened_has_an_exit_code_and_a_sentence(
    run: Execution, environment: dict[str, str], runtime: RuntimeWithShells
):
    def attempt(*argv: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "manage.py", "run", "shell", *argv], env=environment, cwd=ROOT,
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr.decode()

    runtime.refusal = "the image has no shell; name a program"
    unknown, missing = attempt("run-0123456789ab", "seed"), attempt(run.run_id, "nothing")
    late = attempt(run.run_id, "check")
    refused, option = attempt(run.run_id, "seed"), attempt(run.run_id, "seed", "-o", "json")

    assert (unknown[0], missing[0], late[0], refused[0]) == (3, 3, 5, 6)
    assert "never started" in late[1]
    assert "the image has no shell; name a program" in refused[1]
    assert "'-o' is no program: options come before RUN" in option[1]
