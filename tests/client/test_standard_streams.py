"""Streams that are closed, full, cut, or without the letters of a text."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from partita_client.standard_streams import end_output
from tests.support.fake_partita import RUN, TOKEN, FakePartita
from tests.support.processes import ROOT

pytestmark = pytest.mark.slow
# descriptor 3: a pipe whose reader has gone
CUT_PIPE = "exec 3> >(:); wait $!;"
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
    done = typed(fake, f"{CUT_PIPE} partita {words} >&3")

    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("cut", [">/dev/full", ">&3"], ids=["full", "cut"])
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [("--nope", 2, ""), ("run show run-none", 3, ""), ("run list -o name", 0, f"{RUN}\n")],
)
def test_notes_that_cannot_be_written_change_no_exit_code_and_no_output(
    fake: FakePartita, cut: str, words: str, code: int, said: str
):
    done = typed(fake, f"{CUT_PIPE} partita {words} 2{cut}")

    assert (done.returncode, done.stdout) == (code, said)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError(errno.ENOENT, "gone"), "error: gone\n"),
        (FileNotFoundError(errno.ENOENT, "gone", "a.yaml"), "error: a.yaml: gone\n"),
        (OSError("odd"), "error: odd\n"),
        (OSError(errno.ENOSPC, "full"), "error: the output cannot be written: full\n"),
    ],
    ids=["no file", "file", "no number", "full"],
)
def test_what_is_no_output_is_not_blamed_on_it(capsys: Any, error: OSError, said: str):
    assert (end_output(error), capsys.readouterr().err) == (1, said)


def test_a_filtered_document_is_one_with_any_letters(fake: FakePartita):
    fake.detail["sentence"] = "späß"
    line = f"partita run show {RUN} -o json --jq '[.sentence]'"
    done = typed(fake, line, PYTHONIOENCODING="ascii")

    assert json.loads(done.stdout) == ["späß"]


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
