"""Streams that are closed, full, cut, or without the letters of a text."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.fake_partita import RUN, TOKEN, FakePartita
from tests.support.processes import ROOT

pytestmark = pytest.mark.slow
FULL = "error: the output cannot be written: No space left on device\n"


def typed(fake: FakePartita, line: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell, in which `partita` is the client."""
    environment = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": os.environ["HOME"],
        "PARTITA_URL": fake.url, "PARTITA_TOKEN": TOKEN, "PYTHONUTF8": "0",
    }  # fmt: skip
    program = f"{sys.executable} -m partita_client"
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line.replace("partita", program)],
        env=environment | more, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "words", ["run list", "run list -o json --jq .total", "run list --help", "--help", "version"]
)
def test_output_that_cannot_be_written_is_told_in_a_sentence(fake: FakePartita, words: str):
    done = typed(fake, f"partita {words} >/dev/full")

    assert (done.returncode, done.stderr) == (1, FULL)


@pytest.mark.parametrize("words", ["run list", "run list --help"])
def test_a_reader_that_has_read_enough_is_no_error(fake: FakePartita, words: str):
    done = typed(fake, f"partita {words} | true")

    assert (done.returncode, done.stderr) == (141, "")


def test_a_text_is_shown_where_the_terminal_lacks_its_letters(fake: FakePartita):
    done = typed(fake, f"partita run show {RUN}", PYTHONIOENCODING="ascii")

    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u2717 check exited with code 3" in done.stdout


def test_a_document_is_one_with_any_letters(fake: FakePartita):
    fake.detail["sentence"] = "späß 🙈"
    done = typed(fake, f"partita run show {RUN} -o json", PYTHONIOENCODING="ascii")

    assert json.loads(done.stdout)["sentence"] == "späß 🙈"


@pytest.mark.parametrize(
    ("line", "code"),
    [("partita run list >&-", 0), ("partita run list <&- >&- 2>&-", 0), ("partita rnu 2>&-", 2)],
)
def test_closed_streams_change_no_exit_code(fake: FakePartita, line: str, code: int):
    done = typed(fake, line)

    assert (done.returncode, done.stderr) == (code, "")
