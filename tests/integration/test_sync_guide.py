"""docs/guides/sync-configuration.md, command by command, with the two processes that it starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.support.guides import GUIDES, commands_of, files_of, prints
from tests.support.processes import ROOT, Process, until
from tests.support.servers import free_port

GUIDE = "sync-configuration.md"
PLACE = "/srv/sync"
HTTP = "localhost:8000"
READS = ("cat ", "sync status")  # what orchestrator and watcher do, they do in a moment
pytestmark = pytest.mark.slow


class Reader:
    """Someone who types what the guide says, in a folder of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        grpc, http, admin = (free_port() for _ in range(3))
        self.http = http
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "APP_ENV": "development",
            "ORCHESTRATOR_GRPC_ADDR": f"127.0.0.1:{grpc}",
            "ORCHESTRATOR_ADDR": f"127.0.0.1:{grpc}",
            "ORCHESTRATOR_HTTP_ADDR": f"127.0.0.1:{http}",
            "ADMIN_ADDR": f"127.0.0.1:{admin}",
            **{f"GIT_{role}_{what}": "ann@example.org" for role in ("AUTHOR", "COMMITTER")
               for what in ("NAME", "EMAIL")},
            **self.exports(),
        }  # fmt: skip

    def here(self, text: str) -> str:
        return text.replace(PLACE, str(self.folder / "sync")).replace(
            HTTP, f"localhost:{self.http}"
        )

    def exports(self) -> dict[str, str]:
        """The variables that the guide sets for all terminals."""
        lines = re.findall(r"^export (.+)$", (GUIDES / GUIDE).read_text(), re.M)
        pairs = (pair.partition("=") for line in lines for pair in line.split())
        return {name: self.here(value) for name, _, value in pairs}

    def write_files(self) -> None:
        for path, text in files_of(GUIDE).items():
            place = Path(self.here(path))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(self.here(text))

    def type(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", "-c", self.here(command)], cwd=ROOT, env=self.environment,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def sees(self, command: str, expected: list[str]) -> None:
        """Type a command until it prints what the guide says; what does more than read, once."""
        lines = [self.here(line) for line in expected]

        if any(each in command for each in READS):
            until(
                lambda: prints(self.type(command).stdout, lines),
                within_s=45, each_s=1, what=lambda: f"{lines}, not {self.type(command).stdout}",
            )  # fmt: skip
            return
        made = self.type(command)
        said = made.stdout + made.stderr
        assert made.returncode == 0, (command, said)
        assert not lines or prints(said, lines), (command, said)

    def is_ready(self) -> bool:
        address = f"http://{self.environment['ORCHESTRATOR_HTTP_ADDR']}/v1/health/readiness"
        with suppress(httpx.TransportError):
            return httpx.get(address, trust_env=False).status_code == httpx.codes.OK
        return False

    def start(self, *words: str) -> Process:
        command = [sys.executable, "manage.py", *words]
        process = Process(words[0], command, self.environment, self.folder / f"{words[0]}.log")
        process.start()
        return process


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


@pytest.fixture
def processes(reader: Reader) -> Iterator[list[Process]]:
    running: list[Process] = []
    yield running
    for process in reversed(running):
        process.stop()


def test_the_guide_works_as_printed(reader: Reader, processes: list[Process]) -> None:
    reader.write_files()
    for command, expected in commands_of(GUIDE):
        if "sync plan" in command:
            processes.append(reader.start("run_orchestrator", "--migrate"))
            until(reader.is_ready, within_s=60, what=processes[0].text)
            processes.append(reader.start("run_watcher"))
        reader.sees(command, expected)

    until(lambda: "healed" in reader.type("./partita sync drift").stdout, within_s=45, each_s=1)
