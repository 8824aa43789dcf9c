"""Runs one step as a child process; outlives the runtime that started it. Standard library only.

`python -I -S wrapper.py <folder>`; standard input: one JSON object `{argv, env, cwd}`. In the
folder: `pid` (JSON `{pid, time}`, made once: a second wrapper for the folder gives up), `output`
(frames, see `worker/domain/output_records.py`), at the end `exit` (the code). Answers one line on
standard output: `started`, or `failed <code> <message>`. When the child ends, whatever it left
running is killed, as a container would.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import TypedDict

RECORD_LIMIT = 16 * 1024
READ_SIZE = 64 * 1024
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: orphans of the step become children of this process


class Order(TypedDict):
    """What the runtime asks for, on standard input."""

    argv: list[str]
    env: dict[str, str]
    cwd: str


def main(folder: Path) -> None:
    order = json.loads(sys.stdin.buffer.read())
    if os.fork():  # the runtime waits for this process; the one that stays is nobody's child
        os._exit(0)
    os.setsid()
    if not claim(folder):
        return answer("failed 125 already started")
    adopt_orphans()
    child = start(order, folder)
    if child:
        signal.signal(signal.SIGTERM, lambda *_: forward(child))
        answer("started")
        copy_output(child, folder / "output")
        write(folder / "exit", str(exit_code(child.wait())))
    return None


def claim(folder: Path) -> bool:
    """Only one wrapper gets the name `pid`; with its content, at once."""
    scratch = folder / f"pid.{os.getpid()}"
    scratch.write_text(json.dumps({"pid": os.getpid(), "time": time.time()}))
    try:
        os.link(scratch, folder / "pid")
    except FileExistsError:
        return False
    finally:
        scratch.unlink()
    return True


def start(order: Order, folder: Path) -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(  # noqa: S603 - what the step says, without a shell
            order["argv"],
            cwd=order["cwd"],
            env=order["env"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        code = 126 if isinstance(error, PermissionError) else 127
        write(folder / "exit", str(code))
        answer(f"failed {code} {order['argv'][0]}: {error.strerror}")
        return None


def forward(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(signal.SIGTERM)


def copy_output(child: subprocess.Popen[bytes], path: Path) -> None:
    """Both pipes into one file until both are closed; the child's end kills what it left."""
    assert child.stdout is not None
    assert child.stderr is not None
    out = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    rests = {1: b"", 2: b""}
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ, 1)
        selector.register(child.stderr, selectors.EVENT_READ, 2)
        selector.register(os.pidfd_open(child.pid), selectors.EVENT_READ, 0)
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, READ_SIZE) if key.data else b""
                if key.data:
                    rests[key.data] = store(out, key.data, rests[key.data] + data, last=not data)
                else:
                    child.wait()
                    kill_the_rest()
                if not data:
                    selector.unregister(key.fileobj)
    os.close(out)


def store(out: int, stream: int, data: bytes, *, last: bool) -> bytes:
    """Append whole records; answers the begun one."""
    frames, start = [], 0
    while True:
        newline = data.find(b"\n", start, start + RECORD_LIMIT)
        end = newline + 1 if newline >= 0 else start + RECORD_LIMIT
        if end > len(data):
            break
        frames.append(frame(stream, data[start:end]))
        start = end
    if last and start < len(data):
        frames.append(frame(stream, data[start:]))
        start = len(data)
    if frames:
        write_all(out, b"".join(frames))
    return data[start:]


def write_all(out: int, data: bytes) -> None:
    while data:
        data = data[os.write(out, data) :]


def frame(stream: int, data: bytes) -> bytes:
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z "
    content = stamp.encode() + data
    return struct.pack(">BxxxI", stream, len(content)) + content


def kill_the_rest() -> None:
    """Direct children again and again: the children of a killed one become ours."""
    while pids := children():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def children() -> list[int]:
    try:
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        return []
    return [int(pid) for pid in listed.split()]


def adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def exit_code(returned: int) -> int:
    return 128 - returned if returned < 0 else returned


def write(path: Path, text: str) -> None:
    """Whole or not at all."""
    scratch = path.with_suffix(".new")
    scratch.write_text(text)
    scratch.replace(path)


def answer(line: str) -> None:
    with contextlib.suppress(OSError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        os.close(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
