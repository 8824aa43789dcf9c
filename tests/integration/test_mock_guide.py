"""docs/guides/mock-an-api.md, step by step: its files, its servers, its commands, their output."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_mock_serve import Served
from tests.support.guides import GUIDES, prints
from tests.support.processes import ROOT, until, write_partita
from tests.support.servers import free_port

pytestmark = pytest.mark.slow
GUIDE = "mock-an-api.md"
STEP = re.compile(
    r"^This is `(?P<path>[^`]+)`:\n\n```\w+\n(?P<text>.*?)^```$"
    r"|^```sh\n(?P<server>.*?)^```$"
    r"|^```console\n(?P<console>.*?)^```$",
    re.S | re.M,
)


def guide() -> str:
    """The guide with ports that are free here."""
    text = (GUIDES / GUIDE).read_text()
    for port in ("8095", "8096"):
        text = text.replace(port, str(free_port()))
    return text


class Reader:
    """Does what the guide says in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.served: Served | None = None
        self.others: list[subprocess.Popen[bytes]] = []
        self.commands = 0
        write_partita(folder)

    def writes(self, path: str, text: str) -> None:
        """Write a file; once a server follows edits, wait until it has one that it serves."""
        before = self._reloads()
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)
        if self.served is not None and path.startswith(("clinic/api/", "clinic/mock/")):
            until(
                lambda: self._reloads() > before,
                within_s=30,
                what=lambda: f"the edit of {path}: {self._said()}",
            )

    def starts(self, line: str, port: str) -> None:
        words = shlex.split(line)
        if words[:3] == ["./partita", "mock", "serve"]:
            words = [str(self.folder / words[3]), *words[4:], "--port", port]
            self.served = Served(self.folder, *words)
            self.served.hears("Ctrl-C ends it", where=self.served.out)
        else:
            words = [sys.executable, *words[1:]] if words[0] == "python3" else words
            with (self.folder / "other.txt").open("wb") as said:
                other = subprocess.Popen(words, cwd=self.folder, stdout=said, stderr=said)
            self.others.append(other)
            until(lambda: self._listens(words[3]), within_s=30, what="it listens")

    def types(self, console: str) -> None:
        for step in re.split(r"^\$ ", console, flags=re.M)[1:]:
            command, _, expected = step.partition("\n")
            done = subprocess.run(
                ["bash", "-c", f"set -o pipefail\n{command}"],
                cwd=self.folder, env=_environment(), capture_output=True, text=True, timeout=180,
                check=False,
            )  # fmt: skip
            assert done.returncode == 0, (command, done.stdout, done.stderr, self._said())
            output = "".join(f"{line}\n" for line in done.stdout.splitlines())
            assert prints(output, expected.splitlines()), f"$ {command}\n{output}\nnot\n{expected}"
            self.commands += 1

    def end(self) -> None:
        if self.served is not None:
            self.served.end()
        for other in self.others:
            other.kill()
            other.wait(20)

    def _listens(self, port: str) -> bool:
        done = subprocess.run(
            ["curl", "-s", "-o", "/dev/null", f"http://127.0.0.1:{port}/"], check=False, timeout=180
        )
        return done.returncode == 0

    def _reloads(self) -> int:
        return self._said().count("reloaded: ")

    def _said(self) -> str:
        return self.served.err.read_text() if self.served else ""


def _environment() -> dict[str, str]:
    """Return the environment of somebody who has Partita and pytest, and runs no test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": programs, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    made = Reader(tmp_path)
    yield made
    made.end()


def test_the_guide_works_as_printed(reader: Reader):
    text = guide()
    port = re.search(r"http://127\.0\.0\.1:(\d+)/mocks", text)
    assert port
    for step in STEP.finditer(text):
        if step["path"]:
            reader.writes(step["path"], step["text"])
        elif step["server"]:
            reader.starts(step["server"], port[1])
        else:
            reader.types(step["console"])

    assert reader.commands >= 8
    assert reader.served is not None
    assert "nearest" not in reader.served.out.read_text()
    assert "kept the last good version" not in reader.served.err.read_text()
