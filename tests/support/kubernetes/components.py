"""The processes of the cluster that TEST_KUBECONFIG names, for tests that kill them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.support import parts
from tests.support.processes import until

COMPONENTS: Final = ("apiserver", "etcd", "kubelet")
AWAY_S: Final = 1
STARTED_S: Final = 10


@dataclass(frozen=True)
class Component:
    pid: int
    command: list[str]
    log: Path


def find_component(name: str) -> Component:
    """Return a process of the cluster; a cluster that nobody here started skips the test."""
    folder = Path(parts.need_cluster()).parent
    file = folder / "pid" / name
    if not file.exists():
        pytest.skip(f"the processes of this cluster are not known: there is no {file}")
    pid, log = int(file.read_text()), folder / "log" / f"{name}.log"
    if not (command := _command_of(pid)):
        raise AssertionError(f"{name} has ended by itself: {log.read_text()[-2000:]}")
    return Component(pid, command, log)


def _command_of(pid: int) -> list[str]:
    """Return the words of a process, none if it has ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    except FileNotFoundError:
        return []
    return [word.decode() for word in words]


def kill_and_restart(name: str, *, away_s: float = AWAY_S) -> None:
    """Kill a component, as a crash would, and start it again as it was."""
    killed = find_component(name)
    network = next(find_component(other).pid for other in COMPONENTS if other != name)
    os.kill(killed.pid, signal.SIGKILL)
    time.sleep(away_s)
    words = ["sh", "-c", 'log=$1; shift; setsid "$@" >>"$log" 2>&1 & echo $!', "sh"]
    words += [str(killed.log), "nsenter", f"--net=/proc/{network}/ns/net", *killed.command]
    started = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    (Path(parts.need_cluster()).parent / "pid" / name).write_text(started)
    until(  # a kill that comes before finds the words of the shell
        lambda: _command_of(int(started)) in (killed.command, []),
        within_s=STARTED_S,
        what=lambda: f"{name} is started: {_command_of(int(started))}",
        each_s=0.01,
    )
