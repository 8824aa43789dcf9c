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
        (["zebra"], "there is no command 'zebra'"),
        (["help", "zebra"], "there is no command 'zebra'"),
        (["migrat"], "there is no command 'migrat'; did you mean migrate?"),
    ],
)
def test_a_word_that_is_no_command_is_wrong_usage(capsys, words: list[str], error: str):
    with pytest.raises(SystemExit) as ended:
        CommandUtility(["partita", *words]).execute()

    said = f"error: {error}\nnext: partita --help, or partita admin\n"
    assert (ended.value.code, capsys.readouterr().err) == (2, said)


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
