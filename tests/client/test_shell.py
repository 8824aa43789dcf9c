"""`run shell`: what is a mistake, and what a refusal of the server says to do next.

Between pipes: test_terminal_session.py; through cuts: tests/integration/test_shell_command.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from partita_client.command.program import run_words
from tests.support.fake_partita import RUN, FakePartita, problem

SHELLS = f"POST /api/v1/executions/{RUN}/shells"


@pytest.fixture(autouse=True)
def _standard_input(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Standard input that has a descriptor."""
    with Path("/dev/null").open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        yield


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "the following arguments are required: RUN, STEP"),
        ((RUN,), "the following arguments are required: STEP"),
        ((RUN, "api", "-o", "json"), "'-o' is not a program: options come before RUN"),
        ((RUN, "api", "--", "--version"), "'--version' is not a program: options come before RUN"),
        (("-o", "json", RUN, "api"), "a shell has no document to print; leave it out"),
        (("--jq", ".", RUN, "api"), "unrecognized arguments: --jq"),
    ],
)
def test_a_mistake_is_told_before_anything_is_opened(
    signed_in: FakePartita, capfd: Any, words: tuple[str, ...], said: str
):
    try:
        code: object = run_words(["run", "shell", *words])
    except SystemExit as ended:  # of argparse
        code = ended.code

    assert code == 2
    assert said in capfd.readouterr().err
    assert signed_in.asked == []


@pytest.mark.parametrize(
    ("status", "code", "exit_code", "advice"),
    [
        (403, "ci_session_limited", 4, "use the token of a person"),
        (403, "shells_off", 4, "SHELL_ACCESS of the server closes shells"),
        (403, "role_required", 4, "`partita whoami` shows your role"),
        (404, "execution_not_found", 3, "`partita run list` shows the runs"),
        (409, "not_kept", 5, "partita run launch SUITE --keep 30m"),
        (429, "too_many_shells", 1, "end one on the page of its run"),
    ],
)
def test_a_refusal_says_what_to_do(
    signed_in: FakePartita, capfd: Any, status: int, code: str, exit_code: int, advice: str
):
    signed_in.answers[SHELLS] = lambda *_: problem(status, code, "it is refused")

    assert run_words(["run", "shell", RUN, "api", "--", "ls", "-l"]) == exit_code

    said = capfd.readouterr().err
    assert f"error {code}: it is refused" in said
    assert advice in said
    [(_, _, body)] = signed_in.asked
    assert body == {"stepId": "api", "command": ["ls", "-l"], "columns": 80, "rows": 24}


def test_without_a_terminal_of_unix_it_says_so(
    signed_in: FakePartita, capfd: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delitem(
        sys.modules, "partita_client.command.terminal.local_terminal", raising=False
    )
    monkeypatch.setitem(sys.modules, "termios", None)

    assert run_words(["run", "shell", RUN, "api"]) == 2

    assert "needs a terminal of Unix, and here is no termios" in capfd.readouterr().err
    assert signed_in.asked == []


def test_without_a_server_it_says_how_to_name_one(capfd: Any):
    assert run_words(["run", "shell", RUN, "api"]) == 6

    assert "partita login" in capfd.readouterr().err
