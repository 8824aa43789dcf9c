"""The command of the tests, interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.processes import ROOT, until
from tests.support.run import REAL_FOLDERS, SERVICE_TESTS, files_with

# Two lanes of two commands each: the first sleep, the second would leave a file.
LANES = """
import signal, sys
from tests.support.run import Command, run_lanes

signal.signal(signal.SIGINT, signal.default_int_handler)
folder = sys.argv[1]
lanes = [
    [Command(["sh", "-c", f"touch {folder}/begun{n}; exec sleep 60"]),
     Command(["touch", f"{folder}/second"])]
    for n in range(2)
]
sys.exit(run_lanes(lanes, {"PATH": "/usr/bin:/bin"}))
"""


@pytest.mark.timed
@pytest.mark.slow
def test_a_signal_to_the_command_alone_ends_both_lanes_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LANES, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT) as process:
        until(lambda: len([*tmp_path.iterdir()]) == 2, within_s=30, what="both lanes run")
        sent = time.monotonic()

        process.send_signal(signal.SIGINT)

        assert process.wait(30) == 128 + signal.SIGINT
    assert time.monotonic() - sent < 5
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize("marker", ["browser", "store"])
def test_a_marker_is_named_in_each_file_whose_tests_have_it(marker: str) -> None:
    """What adds it elsewhere, such as a hook or a shared parameter, would leave tests out."""
    named = {ROOT / path for path in files_with(marker, "tests")}

    others = {path for path in (ROOT / "tests").rglob("*.py") if path not in named}

    assert named
    assert not [str(path) for path in others if f"mark.{marker}" in path.read_text()]


def test_each_test_file_is_in_a_lane() -> None:
    folders = [ROOT / folder for folder in (*SERVICE_TESTS, *REAL_FOLDERS)]

    files = [*(ROOT / "tests").rglob("test_*.py")]

    assert files
    assert not [
        str(path) for path in files if not any(path.is_relative_to(folder) for folder in folders)
    ]
