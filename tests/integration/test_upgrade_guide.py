"""docs/guides/upgrade.md, command by command, on a used folder."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.guides import GUIDES, prints
from tests.support.processes import ROOT
from tests.support.up import Up

GUIDE = "upgrade.md"
pytestmark = pytest.mark.slow


def commands(places: dict[str, str]) -> list[tuple[str, list[str]]]:
    """Each command with the lines that it is said to print; blocks may stand in a list."""
    found: list[tuple[str, list[str]]] = []
    text = (GUIDES / GUIDE).read_text()
    for theirs, ours in places.items():
        text = text.replace(theirs, ours)
    for block in re.findall(r"^ *```console\n(.*?)^ *```$", text, re.S | re.M):
        for line in map(str.strip, block.splitlines()):
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def test_the_guide_works_as_printed(tmp_path: Path) -> None:
    up = Up(tmp_path / "up", LOCAL_RUNTIME="process", UP_DEMO="0")
    try:
        up.start()
        assert up.partita("run", "launch", "hello", "--watch").returncode == 0
    finally:
        up.end()
    restored = Up(tmp_path / "restored", LOCAL_RUNTIME="process", UP_DEMO="0")
    (tmp_path / "backups").mkdir()
    places = {
        "/srv/partita": str(up.data),
        "/srv/restored": str(restored.data),
        "/mnt/backups": str(tmp_path / "backups"),
    }
    for command, expected in commands(places):
        environment = {name: value for name, value in up.environment.items() if name != "DATA_DIR"}
        made = subprocess.run(
            ["/bin/sh", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert made.returncode == 0, (command, made.stdout, made.stderr)
        said = made.stdout + made.stderr
        assert prints(said, expected) or not expected, (command, said)

    with restored:
        assert "hello" in restored.partita("run", "list").stdout
