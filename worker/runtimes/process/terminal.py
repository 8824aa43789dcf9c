"""Runs one program on a terminal, and kills all that it started. Standard library only.

`python -I -S terminal.py <file> <terminal> <control> [<unit>]`: the last three are descriptors:
the slave side of a pseudoterminal, a socket of the runtime, and a pidfd of the unit's wrapper.
Standard input: one JSON object `{argv, env, cwd}`. Answers lines on the control socket: `started`
or `failed <code> <message>`, then `exit <code>`. The end of the socket (also by kill -9 of the
runtime), SIGTERM, or the end of the unit hangs up and kills everything. `<file>` holds the pid of
this process (JSON `{pid, time}`) while it runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import sys
import termios
import time
from pathlib import Path
from typing import NoReturn, TypedDict

GRACE_S = 0.5  # between the hang-up and the kill
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: orphans of the program become children of this process


class TerminalOrder(TypedDict):
    """What the runtime asks for, on standard input."""

    argv: list[str]
    env: dict[str, str]
    cwd: str


def main(claim: Path, terminal: int, control: socket.socket, unit: int | None) -> None:
    order = json.loads(sys.stdin.buffer.read())
    if os.fork():  # the runtime waits for this process; the one that stays is nobody's child
        os._exit(0)
    os.setsid()
    write_claim(claim)
    stop, ask_stop = os.pipe()
    signal.signal(signal.SIGTERM, lambda *_: os.write(ask_stop, b"x"))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    try:
        run(order, terminal, control, [each for each in (stop, unit) if each is not None])
    finally:
        kill_all()
        claim.unlink(missing_ok=True)
        control.close()


def run(order: TerminalOrder, terminal: int, control: socket.socket, ends: list[int]) -> None:
    """Start the program, and return when it ended or one of `ends` or the control is readable."""
    child, problem = start(order, terminal)
    os.close(terminal)
    answer(control, problem or "started")
    if not problem:
        watched = os.pidfd_open(child)
        ready, _, _ = select.select([watched, control.fileno(), *ends], [], [])
        if watched not in ready:
            hang_up(child, watched)
        answer(control, f"exit {exit_code(child)}")


def start(order: TerminalOrder, terminal: int) -> tuple[int, str]:
    """Return the pid and the empty text, or why the program could not start."""
    reading, writing = os.pipe()  # close-on-exec: its end says that the program runs
    child = os.fork()
    if not child:
        execute(order, terminal, writing)
    os.close(writing)
    problem = b""
    while data := os.read(reading, 4096):
        problem += data
    os.close(reading)
    return child, problem.decode()


def execute(order: TerminalOrder, terminal: int, failure: int) -> NoReturn:
    """Become the program: leader of a session whose controlling terminal this is."""
    try:
        os.setsid()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        for number in (0, 1, 2):
            os.dup2(terminal, number)
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(order["cwd"])
        os.execvpe(order["argv"][0], order["argv"], order["env"])  # noqa: S606
    except OSError as error:
        code = 126 if isinstance(error, PermissionError) else 127
        os.write(failure, f"failed {code} {order['argv'][0]}: {error.strerror}".encode())
    finally:
        os._exit(127)


def hang_up(child: int, watched: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGHUP)
        os.killpg(child, signal.SIGCONT)
    if not select.select([watched], [], [], GRACE_S)[0]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def kill_all() -> None:
    """Direct children again and again: the children of a killed one become ours."""
    while pids := children():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def children() -> list[int]:
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(pid) for pid in listed.split()]


def exit_code(child: int) -> int:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return 128 - code if code < 0 else code


def write_claim(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    scratch = path.parents[1] / f"shell-{path.name}.new"
    scratch.write_text(json.dumps({"pid": os.getpid(), "time": time.time()}))
    scratch.replace(path)


def answer(control: socket.socket, line: str) -> None:
    with contextlib.suppress(OSError):
        control.sendall(f"{line}\n".encode())


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[2:]]
    for number in numbers:
        os.set_inheritable(number, False)  # noqa: FBT003 - the program gets the terminal as 0, 1 and 2 only
    main(
        Path(sys.argv[1]),
        numbers[0],
        socket.socket(fileno=numbers[1]),
        numbers[2] if len(numbers) > 2 else None,  # noqa: PLR2004
    )
