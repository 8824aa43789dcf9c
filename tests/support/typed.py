"""`partita` as somebody types it in a terminal of their own, against a server of the tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.processes import ROOT

CHATTY = """
load("@partita/runtime", "test")

chatty = test.run(name = "chatty", image = "busybox:1.36", command = ["seq", "1", "3000"])
report = test.run(name = "report", image = "busybox:1.36", after = [chatty],
    commands = ["mkdir -p out", "echo made > out/made.txt"])
report.export("out/made.txt")
"""


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

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "-o", "json"))


def chatty_lines(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\bchatty +(\d+)$", text, re.M)]
