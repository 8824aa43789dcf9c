"""`partita run shell` on a terminal, in a pipe and through cuts, over HTTP.

The runner is in the process of the test. (reference: control-plane 11.7)
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from apps.accounts.api import Role
from apps.accounts.models import Membership, User
from apps.executions.models import Execution
from apps.shells.models import ShellSession
from tests.apps.executions_rest.conftest import Caller
from tests.apps.shells import conftest as shells
from tests.apps.shells.conftest import RunnerOfShells, await_shell, await_state, keep_run
from tests.support.browser import Server
from tests.support.fake_partita import Relay
from tests.support.fake_shells import FakeShell, RuntimeWithShells
from tests.support.processes import ROOT, until

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
runtime, start_runner = shells.runtime, shells.start_runner


@pytest.fixture
def run(client: httpx.Client, runtime: RuntimeWithShells) -> Execution:
    """A kept run of Ada, who has just signed up."""
    run = keep_run(Caller(User.objects.get(email="ada@example.org"), ""))
    runtime.give_unit(run.run_id, "seed")
    runtime.notice = "a copy of the ended step"
    return run


@pytest.fixture(autouse=True)
def runner(runtime: RuntimeWithShells, start_runner: Callable[..., Any]) -> RunnerOfShells:
    started: RunnerOfShells = start_runner(runtime)
    return started


def token_of(api: httpx.Client) -> str:
    return str(api.headers["Authorization"]).partition(" ")[2]


@pytest.fixture
def environment(client: httpx.Client, server: Server, tmp_path: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TERM": "xterm-256color",
        "PARTITA_URL": server.url,
        "PARTITA_TOKEN": token_of(client),
    }


def command(run_id: str, *words: str) -> list[str]:
    return [sys.executable, "-m", "partita_client", "run", "shell", run_id, "seed", *words]


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

    assert person.process.wait(30) == 128 + number
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
            [*command("")[:-2], *argv], env=environment, cwd=ROOT,
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr.decode()

    runtime.refusal = "the image has no shell; name a program"
    unknown, missing = attempt("run-0123456789ab", "seed"), attempt(run.run_id, "nothing")
    late = attempt(run.run_id, "check")
    refused, option = attempt(run.run_id, "seed"), attempt(run.run_id, "seed", "-o", "json")
    document = attempt("-o", "json", run.run_id, "seed")

    assert (unknown[0], missing[0], late[0], refused[0]) == (3, 3, 5, 6)
    assert (option[0], document[0]) == (2, 2)
    assert "a shell has no document to print; leave it out" in document[1]
    assert "never started" in late[1]
    assert "the image has no shell; name a program" in refused[1]
    assert "'-o' is not a program: options come before RUN" in option[1]


PARTS = re.compile(rb"<(\d+)>")


def test_cuts_lose_no_output_and_double_none(
    run: Execution,
    environment: dict[str, str],
    server: Server,
    runtime: RuntimeWithShells,
    runner: RunnerOfShells,
):
    """Invariant 15, through a relay that cuts the first connections after so many bytes.

    Nothing is typed, nor does the input end: a cut would leave that in doubt, and end the shell.
    """
    relay = Relay(server.port, cuts=12, after_bytes=20_000)
    silent, typing = os.pipe()
    shell = subprocess.Popen(
        command(run.run_id), cwd=ROOT, stdin=silent, stdout=subprocess.PIPE,
        env=environment | {"PARTITA_URL": f"http://127.0.0.1:{relay.port}"}, stderr=subprocess.PIPE,
    )  # fmt: skip
    opened = await_opened(runtime)
    runner.do(lambda: opened.print(b"".join(b"<%d>\r\n" % number for number in range(60_000))))
    runner.do(lambda: opened.exit(5))

    output, errors = shell.communicate(timeout=120)

    relay.close()
    for descriptor in (silent, typing):
        os.close(descriptor)
    assert shell.returncode == 5, errors
    assert [int(number) for number in PARTS.findall(output)] == list(range(60_000))
    assert relay.accepted > 12


def await_opened(runtime: RuntimeWithShells) -> FakeShell:
    until(lambda: bool(runtime.opened), within_s=60, what="a shell is open")
    return next(iter(runtime.opened.values()))


def test_a_shell_goes_on_after_kill_9_of_the_server(
    person: PersonAtTerminal, server: Server, runtime: RuntimeWithShells, runner: RunnerOfShells
):
    person.await_text(b"$ ")
    person.type(b"one\r")
    person.await_text(b"said: one")
    server.kill()
    person.await_text(b"reconnecting, no output will be missed (~. or Ctrl-C leaves)")
    shell = await_opened(runtime)
    runner.do(lambda: shell.print(b"meanwhile\r\n"))
    person.type(b"typed while it was away\r")
    server.start()

    person.await_text(b"meanwhile")
    person.await_text(b"said: typed while it was away")
    assert person.text.count(b"said: one") == 1
    person.type(b"exit 4\r")
    assert person.process.wait(30) == 4


def test_a_person_can_leave_while_the_server_is_away(person: PersonAtTerminal, server: Server):
    person.await_text(b"$ ")
    server.kill()
    person.await_text(b"(~. or Ctrl-C leaves)")
    person.type(b"\r~.")

    assert person.process.wait(60) == 0
    assert person.attributes() == person.before
    server.start()


def test_keys_that_a_cut_may_have_lost_are_not_sent_twice(
    run: Execution, environment: dict[str, str], server: Server, runtime: RuntimeWithShells
):
    """The server is stopped, so that it takes nothing, and then killed with the keys."""
    person = PersonAtTerminal(command(run.run_id), environment)
    try:
        person.await_text(b"$ ")
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        person.type(b"lost\r")
        time.sleep(0.5)
        server.kill()
        server.start()
        person.await_text(
            b"the last 5 bytes that you typed may not have arrived; they are not sent"
        )
        person.type(b"\rafter\r")
        person.await_text(b"said: after")
        assert bytes(await_opened(runtime).written).count(b"lost") == 0
    finally:
        person.close()


def test_a_pipe_whose_input_is_in_doubt_ends_with_a_sentence(
    run: Execution, environment: dict[str, str], server: Server, runtime: RuntimeWithShells
):
    shell = subprocess.Popen(
        command(run.run_id), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=environment, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert shell.stdin is not None
    shell.stdin.write(b"one\n")
    shell.stdin.flush()
    opened = await_opened(runtime)
    until(lambda: b"one" in opened.written, within_s=30, what="the first line arrives")
    time.sleep(0.5)  # until its confirmation is back
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)
    shell.stdin.write(b"two\n")
    shell.stdin.flush()
    time.sleep(0.5)
    server.kill()
    server.start()

    _, errors = shell.communicate(timeout=60)

    assert shell.returncode == 6, errors
    assert b"of the input 4 bytes may not have arrived; the shell ends" in errors
    assert b"two" not in opened.written


def test_who_may_not_enter_is_told_in_words(
    run: Execution, environment: dict[str, str], server: Server
):
    def attempt(token: str) -> tuple[int, str]:
        done = subprocess.run(
            command(run.run_id), env=environment | {"PARTITA_TOKEN": token}, cwd=ROOT,
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr.decode()

    facts = {"fullName": "Bob", "email": "bob@example.org", "password": "Str0ngEnough"}
    foreign = httpx.post(f"{server.url}/api/v1/auth/sign-up", json=facts).json()["token"]
    code, words = attempt(foreign)
    assert code == 3
    assert "error execution_not_found" in words
    code, words = attempt("pat_unknown")
    assert code == 4
    assert "next: sign in again: partita login" in words
    Membership.objects.filter(user__email="ada@example.org").update(role=Role.VIEWER)
    code, words = attempt(environment["PARTITA_TOKEN"])
    assert code == 4
    assert "error role_required" in words
    assert "`partita whoami` shows your role" in words


def test_who_loses_the_role_is_told_and_has_the_terminal_back(person: PersonAtTerminal):
    person.await_text(b"$ ")
    Membership.objects.filter(user__email="ada@example.org").update(role=Role.VIEWER)

    person.await_text(b"error role_required")
    assert person.process.wait(60) == 4
    assert person.attributes() == person.before


def test_a_server_that_is_away_has_an_exit_code(run: Execution, environment: dict[str, str]):
    done = subprocess.run(
        command(run.run_id), env=environment | {"PARTITA_URL": "http://127.0.0.1:1"}, cwd=ROOT,
        stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )  # fmt: skip

    assert done.returncode == 6
    assert b"no connection to http://127.0.0.1:1" in done.stderr


def test_much_input_and_output_pass_whole(
    run: Execution, environment: dict[str, str], runtime: RuntimeWithShells
):
    """3 MB each way, not UTF-8 as far as it is typed; neither side waits for the other forever."""
    typed = bytes(range(128, 256)) * 8
    done = subprocess.run(
        command(run.run_id), env=environment, cwd=ROOT, capture_output=True, check=False,
        input=b"flood 3000000\n" + typed.replace(b"\n", b"") * 200 + b"\nexit 9\n", timeout=240,
    )  # fmt: skip

    assert done.returncode == 9, done.stderr
    assert done.stdout.count(b"x") >= 3_000_000
    assert bytes(await_opened(runtime).written).count(typed) == 200
