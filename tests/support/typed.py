"""`partita` as somebody types it in a terminal of their own, against a server of the tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from tests.support.processes import ROOT
from tests.support.screens import ProgramOnScreen, on_screen
from tests.support.up import write_suite

CHATTY = """
load("@partita/runtime", "test")

chatty = test.run(name = "chatty", image = "busybox:1.36", command = ["seq", "1", "3000"])
report = test.run(name = "report", image = "busybox:1.36", after = [chatty],
    commands = ["mkdir -p out", "echo made > out/made.txt"])
report.export("out/made.txt")
"""
STEADY = """
load("@partita/runtime", "task")

task.run(name = "steady", image = "busybox:1.36", file = "count.sh")
"""
STEADY_LINES: Final = 400  # for some twenty seconds
COUNT = f"""
i=0
while [ $i -lt {STEADY_LINES} ]; do i=$((i + 1)); echo $i; sleep 0.05; done
"""
_WATCH_S: Final = 180.0


def write_client_suites(folder: Path) -> None:
    """`chatty` writes 3000 lines at once and a file, `steady` 400 lines one after the other."""
    write_suite(folder, "chatty", CHATTY, {})
    write_suite(folder, "steady", STEADY, {"tasks/count.sh": COUNT})


class Typed:
    """What somebody types in a terminal of their own, with a home of their own."""

    def __init__(self, home: Path, **variables: str) -> None:
        self.home = home
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(home), **variables}

    def start(self, *words: str, text: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, str(ROOT / "partita_program.py"), *words]
        process = subprocess.Popen(
            command, cwd=self.home, env=self.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()
        process.stdin = None
        return process

    def run(self, *words: str, text: str = "", code: int = 0) -> str:
        process = self.start(*words, text=text)
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, f"{out}\n{err}"
        return out if code == 0 or out else err

    def on_screen(
        self, *words: str, columns: int, rows: int
    ) -> AbstractContextManager[ProgramOnScreen]:
        """The same on a terminal."""
        command = [sys.executable, str(ROOT / "partita_program.py"), *words]
        return on_screen(command, self.home, columns=columns, rows=rows, **self.environment)

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "-o", "json"))


def numbers_of(text: str, source: str) -> list[int]:
    """Return the numbers that the step `source` wrote, as `run watch` and `run logs` show them."""
    return [int(number) for number in re.findall(rf"\b{source} +(\d+)$", text, re.MULTILINE)]


def watch_through(typed: Typed, run_id: str, troubles: Mapping[int, Callable[[], object]]) -> str:
    """Return what `run watch` prints of a run of `steady` that ends healthy.

    At each number that is seen, its trouble is done to the server while the watch goes on.
    """
    process, left, lines = typed.start("run", "watch", run_id), dict(troubles), list[str]()
    assert process.stdout is not None
    patience = threading.Timer(_WATCH_S, process.kill)
    patience.start()
    for line in process.stdout:
        lines.append(line)
        for number in numbers_of(line, "steady"):
            if trouble := left.pop(number, None):
                trouble()
    out, err = process.communicate()
    patience.cancel()
    assert process.returncode == 0, f"{''.join(lines)}{out}\n{err}"
    assert not left
    return "".join(lines)
