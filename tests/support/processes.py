"""Programs that tests start, kill and freeze; and waiting for what they do."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import psutil

T = TypeVar("T")
# In the environment of a process and of all that it starts: numbers of processes are used again.
MARK: Final = "PARTITA_TEST_PROCESS"
_STACKS_S: Final = 3.0  # for a process to print its stacks
ROOT = Path(__file__).resolve().parents[2]


def until(
    condition: Callable[[], T | None],
    *,
    within_s: float,
    what: str | Callable[[], str] = "",
    each_s: float = 0.1,
) -> T:
    """Return the first truthy answer of `condition`.

    Raises AssertionError with `what` after `within_s`. Pass a function for what changes while
    waiting, such as a log: it is called when the wait fails.
    """
    deadline = time.monotonic() + within_s
    while True:
        if answer := condition():
            return answer
        if time.monotonic() >= deadline:
            said = what if isinstance(what, str) else what()
            raise AssertionError(f"not within {within_s:g} s: {said}")
        time.sleep(each_s)


class Process:
    """One program: start, kill -9, freeze, go on; its output goes to a file.

    A killed process leaves its children to themselves, as a crash does; `end` takes them too.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        *,
        user: str | None = None,
    ) -> None:
        self.name, self.command, self.environment, self.log = name, command, environment, log
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None
        self._mark = secrets.token_hex(16)

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command, env={**self.environment, MARK: self._mark}, cwd=ROOT,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                user=self._user, group=self._user, extra_groups=[] if self._user else None,
            )  # fmt: skip

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """kill -9, or another signal that ends it; returns when it is gone."""
        if self.running:
            self.send(number)
        if self._process is not None:
            self._process.wait(30)

    def crash(self, *, away_s: float) -> None:
        """kill -9; it is back after `away_s`."""
        self.kill()
        time.sleep(away_s)
        self.start()

    def freeze(self) -> None:
        """With the processes it started, but for those in sessions of their own."""
        self._send_to_group(signal.SIGSTOP)

    def go_on(self) -> None:
        self._send_to_group(signal.SIGCONT)

    def freeze_family(self) -> None:
        """With all its descendants, also those in sessions of their own: of PostgreSQL, say."""
        self._send_to_family(signal.SIGSTOP)

    def go_on_family(self) -> None:
        self._send_to_family(signal.SIGCONT)

    def _send_to_family(self, number: signal.Signals) -> None:
        assert self._process is not None
        parent = psutil.Process(self._process.pid)
        for process in (parent, *parent.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def _send_to_group(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def end(self) -> None:
        """Kill it, and whatever it or its predecessors left running."""
        self.kill()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):  # it ended meanwhile, or is another user's
                if process.environ().get(MARK) == self._mark:
                    process.kill()

    def stop(self, within_s: float = 20) -> int:
        """SIGTERM and wait; returns the exit code, kills what does not end."""
        if self.running:
            self.send(signal.SIGTERM)
        return self.wait(within_s)

    def wait(self, within_s: float = 20) -> int:
        """Its exit code; kills what does not end."""
        assert self._process is not None
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.end()
            raise

    def text(self) -> str:
        """All that it has printed so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def state(self) -> str:
        """Whether it runs, is stopped or has ended, and with which code; for a person to read."""
        if self._process is None:
            return "was not started"
        if (code := self._process.poll()) is not None:
            return f"ended with {code}"
        return f"process {self._process.pid} is {psutil.Process(self._process.pid).status()}"

    def stacks(self) -> str:
        """What its threads do now, as it prints them at SIGUSR1; empty if it does not answer.

        Only for programs that know the signal: it ends others.
        """
        if not self.running:
            return ""
        before = len(self.text())
        self.send(signal.SIGUSR1)
        deadline = time.monotonic() + _STACKS_S
        while "most recent call first" not in self.text()[before:]:
            if time.monotonic() >= deadline:
                return ""
            time.sleep(0.05)
        return self.text()[before:]

    def tail(self) -> str:
        lines = [line for line in self.text().splitlines() if '"http.audit"' not in line]
        return "\n".join(lines)[-4000:]


def write_partita(folder: Path) -> Path:
    """Write the command `partita` as people type it, with contexts of its own, into a folder."""
    program = folder / "partita"
    words = shlex.join([sys.executable, str(ROOT / "partita_program.py")])
    home = shlex.quote(str(folder / "config"))
    program.write_text(f'#!/bin/sh\nXDG_CONFIG_HOME={home} PARTITA_KEYRING=off exec {words} "$@"\n')
    program.chmod(0o755)
    return program
