"""`partita run`, and `suite` beside a running `up`, as a newcomer types them."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.integration.suites import make_suites
from tests.support.processes import ROOT, until
from tests.support.up import Up

LONG = ("--profile", "long.yaml")  # of the suite `slow`: five minutes


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("commands")
    suites = make_suites(folder / "suites")
    more = {"SUITES_DIR": str(suites), "UP_DEMO": "0", "LOCAL_RUNTIME": "process"}
    with Up(folder / "up", **more) as up:
        yield up


def test_launch_and_watch(up: Up):
    answer = up.partita("run", "launch", "hello", "--watch")
    assert answer.returncode == 0, answer.stderr
    first, *lines = answer.stdout.splitlines()
    run_id = first.split()[0]
    assert first == f"{run_id}  {up.url}/executions/{run_id}", "where `up` listens"
    assert any("guests greeted: 3" in line for line in lines)
    assert re.fullmatch(r"✓ Hello: Healthy after 00:\d\d  4 steps healthy", lines[-1]), lines[-1]
    detail = up.detail(run_id)
    begun, taken = (datetime.fromisoformat(detail[key]) for key in ("startedAt", "bootedAt"))
    assert (taken - begun).total_seconds() < 3, "a running `up` takes it within 2 s"


def test_launch_prints_the_id_on_stdout_and_the_rest_on_stderr(up: Up):
    answer = up.partita("run", "launch", "hello")
    assert answer.returncode == 0
    assert re.fullmatch(r"run-[0-9a-f]{12}\n", answer.stdout)
    assert f"{up.url}/executions/run-" in answer.stderr


def test_json_is_the_wire_document(up: Up):
    summary = up.json("run", "launch", "hello")
    up.wait_for(summary["id"])
    detail = up.json("run", "show", summary["id"])
    assert detail == up.detail(summary["id"])
    listed = up.json("run", "list", "--suite", "hello", "--limit", "1")["executions"]
    assert [run["id"] for run in listed] == [summary["id"]]


def test_a_watched_launch_as_json_keeps_progress_off_stdout(up: Up):
    answer = up.partita("run", "launch", "hello", "--watch", "-o", "json")
    assert json.loads(answer.stdout)["status"] == "Healthy", answer.stderr
    assert "guests greeted: 3" in answer.stderr


def test_exit_codes_tell_how_a_watched_run_ended(up: Up):
    failed = up.partita("run", "launch", "failing", "--watch")
    assert failed.returncode == 10
    assert " exited with code " in failed.stdout
    assert "exit_nonzero" not in failed.stdout
    assert failed.stdout.splitlines()[-1].startswith("next: partita run logs run-")
    assert "✗ Failing: Failed after" in failed.stdout

    late = up.partita("run", "launch", "slow", *LONG, "--watch", "--timeout", "2s")
    assert late.returncode == 13
    run_id = late.stdout.split()[0]
    assert f"partita run watch {run_id}" in late.stdout
    assert "walk" in late.stdout

    watching = _command(up, "run", "logs", run_id, "--follow", "--source", "walk")
    canceled = up.partita("run", "cancel", run_id, "--reason", "wrong branch")
    assert (canceled.returncode, canceled.stdout) == (0, f"{run_id}: Canceling\n")
    followed, _ = watching.communicate(timeout=180)
    assert "walked" in followed
    assert "tick" not in followed
    why = up.partita("run", "show", run_id).stdout.rstrip()
    assert "  Canceled by Administrator (" in why
    assert why.endswith("wrong branch")
    assert up.partita("run", "cancel", run_id).returncode == 0, "canceled is what was asked for"

    over = failed.stdout.split()[0]
    assert up.partita("run", "cancel", over).returncode == 5


def test_a_run_canceled_while_it_is_watched(up: Up):
    watching = _command(up, "run", "launch", "slow", *LONG, "--watch")
    assert watching.stdout is not None
    run_id = watching.stdout.readline().split()[0]
    assert up.partita("run", "cancel", run_id).returncode == 0
    rest, _ = watching.communicate(timeout=180)
    assert watching.returncode == 12
    assert "■ Slow: Canceled" in rest


def _command(up: Up, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "partita_program.py", *words], cwd=ROOT, text=True, env=up.environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def test_what_goes_wrong_is_said_in_words(up: Up):
    """A suite that is not there or broken; the rest is in tests/client."""
    unknown, broken = up.manage("suite", "show", "nosuch"), up.partita("run", "launch", "broken")

    assert (unknown.returncode, unknown.stdout) == (3, "")
    assert "there is no suite 'nosuch'" in unknown.stderr
    assert (broken.returncode, broken.stdout) == (1, "")
    assert "commmand" in broken.stderr


def test_a_broken_suite_is_shown_with_the_place(up: Up):
    """Invariants 25, 26."""
    answer = up.manage("suite", "validate")
    assert answer.returncode == 1
    assert "broken: suite.star:3:" in answer.stdout, answer.stdout
    assert "commmand" in answer.stdout
    assert "✓ hello: 4 steps" in answer.stdout
    assert "  ✓ profile verbose.yaml: 4 steps" in answer.stdout
    assert up.manage("suite", "validate", "hello", "slow").returncode == 0


def test_the_log_of_a_step_that_the_run_has_not(up: Up):
    run_id = up.partita("run", "launch", "hello").stdout.strip()
    answer = up.partita("run", "logs", run_id, "--source", "nosuch")
    assert answer.returncode == 3
    assert "no step 'nosuch'; known: execution, greeter, " in answer.stderr


def test_a_closed_pipe_is_no_failure(up: Up):
    run_id = up.json("run", "launch", "hello")["id"]
    up.wait_for(run_id)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "partita_program.py", "run", "logs", run_id]
        answer = subprocess.run(
            command,
            cwd=ROOT,
            env=up.environment,
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writer)
    assert answer.stderr == b""


# In a terminal


class Terminal:
    """A command on a terminal of `columns`; what it shows is kept."""

    def __init__(self, up: Up, *words: str, columns: int = 60) -> None:
        self.pid, self.screen = pty.fork()
        if self.pid == 0:
            environment = up.environment | {"COLUMNS": str(columns), "LINES": "20", "TERM": "xterm"}
            os.chdir(ROOT)
            os.execve(sys.executable, [sys.executable, "partita_program.py", *words], environment)
        self.shown = ""

    def read(self) -> str:
        while select.select([self.screen], [], [], 0)[0]:
            try:
                data = os.read(self.screen, 65536)
            except OSError:  # Linux: the other side is closed
                break
            if not data:
                break
            self.shown += data.decode(errors="replace")
        return self.shown

    def hears(self, words: str) -> None:
        until(lambda: words in self.read(), within_s=30, what=lambda: f"{words!r} in {self.shown}")

    def press(self, keys: bytes) -> None:
        os.write(self.screen, keys)

    def exit_code(self) -> int:
        def ended() -> tuple[int, int] | None:
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            return (pid, status) if pid else None

        _, status = until(ended, within_s=30, what=lambda: f"it ends: {self.shown}")
        self.read()
        os.close(self.screen)
        return os.waitstatus_to_exitcode(status)


def test_no_terminal_is_too_narrow_for_an_id(up: Up):
    run_id = up.json("run", "launch", "hello")["id"]
    terminal = Terminal(up, "run", "list", columns=30)
    assert terminal.exit_code() == 0
    assert run_id in terminal.shown


def test_ctrl_c_ends_the_watching_and_not_the_run(up: Up):
    terminal = Terminal(up, "run", "launch", "slow", *LONG, "--watch")
    terminal.hears("walked")
    terminal.press(b"\x03")
    assert terminal.exit_code() == 14
    assert "Traceback" not in terminal.shown
    match = re.search(r"partita run cancel (run-[0-9a-f]+)", terminal.shown)
    assert match, terminal.shown
    assert up.detail(match[1])["status"] == "Booting"
    assert up.partita("run", "cancel", match[1]).returncode == 0


def test_ctrl_c_before_anything_happened(up: Up):
    command = _command(up, "run", "list")
    command.send_signal(signal.SIGINT)
    output, _ = command.communicate(timeout=180)
    if command.returncode in (-signal.SIGINT, 1):  # before Python itself was ready
        assert "partita_program.py" not in output
    else:
        assert command.returncode == 130
        assert "Traceback" not in output
