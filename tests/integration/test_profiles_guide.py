"""docs/guides/profiles-and-secrets.md, done as it says: its files, its commands, their output."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.files import write_files
from tests.support.guides import GUIDES
from tests.support.processes import ROOT
from tests.support.up import Up

GUIDE = (GUIDES / "profiles-and-secrets.md").read_text()
SECRET = "correct-horse-battery"
pytestmark = pytest.mark.slow


def files() -> dict[str, str]:
    """Path → text of the files that the guide has its reader write."""
    found = re.findall(r"^This is `([^`]+)`:\n\n```\w+\n(.*?)^```$", GUIDE, re.S | re.M)
    return dict(found)


def commands() -> list[tuple[str, list[str]]]:
    """Each command with the lines that it is said to print."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```$", GUIDE, re.S | re.M):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def matches(said: str, expected: list[str]) -> bool:
    """`…` alone stands for any lines, at the begin of a line for any text."""
    pattern = ""
    for line in expected:
        if line == "…":
            pattern += r"(?:.*\n)*?"
        elif line.startswith("…"):
            pattern += rf".*{re.escape(line[1:])}\n"
        else:
            pattern += rf"{re.escape(line)}\n"
    return (
        re.fullmatch(pattern, said if said.endswith("\n") or not said else f"{said}\n") is not None
    )


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Path, Up]]:
    """The folder of the reader, and `up` as the guide starts it."""
    write_files(tmp_path, files())
    started = re.search(r"^```sh\n(.*) \./partita up\n```$", GUIDE, re.M)
    assert started
    environment = dict(word.split("=", 1) for word in shlex.split(started[1]))
    environment["SUITES_DIR"] = str(tmp_path / environment["SUITES_DIR"])
    program = tmp_path / "partita"
    words = shlex.join([sys.executable, str(ROOT / "partita_program.py")])
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o755)
    up = Up(tmp_path / "up", LOCAL_RUNTIME="process", UP_DEMO="0", **environment)
    try:
        yield tmp_path, up.start()
    finally:
        up.end()


def test_the_guide_can_be_followed(place: tuple[Path, Up]):
    folder, up = place
    steps = commands()
    assert len(steps) > 10
    script = "".join(f"{command}\nprintf '\\036' ; printf '\\036' >&2\n" for command, _ in steps)
    known = {key: value for key, value in up.environment.items() if key != "PORT"}

    ended = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{script}"],
        cwd=folder, env=known, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    said = ended.stdout.split("\x1e\x1e")
    assert len(said) == len(steps) + 1, ended.stdout
    for (command, expected), output in zip(steps, said, strict=False):
        assert matches(output, expected), f"$ {command}\n{output}\ninstead of\n{expected}"
    assert SECRET not in ended.stdout
    kept = up.environment["PROFILES_FILE"]
    assert "ref: psp_token" in Path(kept).read_text()
    assert SECRET not in Path(kept).read_text()
