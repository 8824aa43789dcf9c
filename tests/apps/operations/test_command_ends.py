"""How a command beside the store ends that is none, or that cannot write its output."""

from __future__ import annotations

import subprocess
import sys

import pytest

from platform_site.command_utility import CommandUtility
from tests.support.processes import ROOT


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["zebra"], "error: there is no command 'zebra'\nnext: partita --help\n"),
        (["help", "zebra"], "error: there is no command 'zebra'\nnext: partita --help\n"),
        (
            ["migrat"],
            "error: there is no command 'migrat'; did you mean migrate?\nnext: partita --help\n",
        ),
    ],
)
def test_a_word_that_is_no_command_is_wrong_usage(capsys, words: list[str], error: str):
    with pytest.raises(SystemExit) as ended:
        CommandUtility(["partita", *words]).execute()

    assert (ended.value.code, capsys.readouterr().err) == (2, error)


@pytest.mark.slow
def test_output_on_a_full_disk_is_told_in_a_sentence():
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} manage.py suite list -o json >/dev/full"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    last = done.stderr.splitlines()[-1]  # a note on the store may come before
    assert (done.returncode, last) == (
        1, "error: the output cannot be written: No space left on device",
    )  # fmt: skip
    assert "Traceback" not in done.stderr
