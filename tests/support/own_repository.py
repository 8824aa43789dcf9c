"""`partita` as somebody types it in a folder of their own, who has no clone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.processes import ROOT, Process, until
from tests.support.servers import free_port

OF_THE_CLONE: Final = (sys.executable, str(ROOT / "partita_program.py"))
_LIMIT_S: Final = 120


class OwnFolder:
    """A folder, the `partita` that is typed there, and the `up` that runs there; no variables."""

    def __init__(self, folder: Path, program: Sequence[str] = OF_THE_CLONE, **more: str) -> None:
        self.folder, self.program = folder, program
        folder.mkdir(parents=True, exist_ok=True)
        inherited = ("PATH", "LANG", "DOCKER_HOST")
        self.environment = {key: os.environ[key] for key in inherited if key in os.environ} | {
            "HOME": str(folder.parent),
            "LOCAL_RUNTIME": "process",
            "PORT": str(free_port()),
            "PYTHONUNBUFFERED": "1",
            **more,
        }
        self.log = folder.parent / f"{folder.name}.terminal.txt"
        self._up: Process | None = None

    def partita(self, *words: str, folder: str = ".") -> subprocess.CompletedProcess[str]:
        return self.run(["partita", *words], folder)

    def run(self, words: Sequence[str], folder: str = ".") -> subprocess.CompletedProcess[str]:
        program = self.program if words[0] == "partita" else words[:1]
        return subprocess.run(
            [*program, *words[1:]], cwd=self.folder / folder, env=self.environment,
            capture_output=True, text=True, check=False, timeout=_LIMIT_S,
        )  # fmt: skip

    def start_up(self) -> None:
        """Start `partita up` here; return once it serves."""
        self.log.unlink(missing_ok=True)  # that of an earlier start
        command = ["env", "-C", str(self.folder), *self.program, "up"]
        self._up = Process("up", command, self.environment, self.log)
        self._up.start()
        self.hears("Ctrl-C stops it")

    def hears(self, words: str) -> str:
        """Return what `up` printed, once `words` are in it."""
        up = self._up
        assert up is not None

        def heard() -> str | None:
            said = self.log.read_text(errors="replace")
            assert words in said or up.running, f"it ended: {said}"
            return said if words in said else None

        return until(heard, within_s=_LIMIT_S, what=self.log.read_text)

    def launched(self) -> str:
        """Return the id of the run that `up` launched."""
        found = re.search(r"/executions/(run-[0-9a-f]+)", self.hears("/executions/run-"))
        assert found
        return found[1]

    def stop_up(self) -> int:
        """Stop it as Ctrl-C does; return its exit code."""
        up = self._up
        assert up is not None
        up.send(signal.SIGINT)
        until(lambda: not up.running, within_s=60, what=self.log.read_text)
        return up.stop()

    def end(self) -> None:
        if self._up is not None:
            self._up.end()
