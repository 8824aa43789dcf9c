"""`run again`: one step in the kept environment, from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.services.administrators import ensure_seed_admin
from apps.executions import api
from apps.executions.log_reader import LogReader
from apps.executions.management.verbs.again import assignment, exit_code
from apps.executions.models import StepRepeat
from readers.archive import unpack
from tests.apps.executions.kept import chunk, completion, end_keeping, kept_run, take
from tests.apps.executions.runs import Run, Worker
from tests.apps.executions.test_rerun_command import command

pytestmark = pytest.mark.django_db(transaction=True)
Ends = Callable[[Any], None]


@pytest.fixture
def run(worker: Worker) -> Run:
    ensure_seed_admin("root@example.org", "swordfish")  # whom commands act for
    return kept_run(worker)


@pytest.fixture
def runner(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> Callable[[Ends], None]:
    """What a runner does while the command waits: it takes the repeat and ends it."""

    def begin(ends: Ends) -> None:
        def work(_reader: LogReader) -> None:
            for claim in take(worker):
                ends(claim)

        monkeypatch.setattr(LogReader, "wait", work)

    return begin


def test_it_prints_the_id_and_does_not_wait_without_a_terminal(run: Run, capsys):
    code, out, error = command(capsys, "again", run.id, "seed", "--env", "BREAK=no")

    row = StepRepeat.objects.get()
    assert (code, out) == (0, f"{row.repeat_id}\n")
    assert error == "seed #2 waits for a runner\n"
    assert (row.env, row.asked_by) == (
        {"BREAK": "no"},
        "Administrator (root@example.org)",
    )


def test_it_shows_the_log_and_ends_as_the_step_does(run: Run, runner, capsys):
    def fail(claim: Any) -> None:
        api.record_repeat_lines(claim, chunk("row 39 is wrong"))
        api.complete_repeat(
            claim, completion("failed", reason="exit_nonzero", exit_code=3, error="exit code 3")
        )

    runner(fail)
    code, out, _ = command(capsys, "again", run.id, "seed", "--watch", "--command", "./seed.sh")

    assert code == 10
    assert "row 39 is wrong\n" in out
    assert "seed #2 failed in " in out
    assert out.endswith(f"the verdict of {run.id} stays as it was\n")


def test_json_has_the_repeat_and_the_log_goes_to_stderr(run: Run, runner, capsys):
    def succeed(claim: Any) -> None:
        api.record_repeat_lines(claim, chunk("fine"))
        api.complete_repeat(claim, completion())

    runner(succeed)
    code, out, error = command(capsys, "again", run.id, "seed", "-w", "-o", "json")

    assert (code, json.loads(out)["state"]) == (0, "succeeded")
    assert "fine" in error


def test_it_stops_watching_after_a_time(run: Run, capsys):
    code, _, error = command(capsys, "again", run.id, "seed", "-w", "--timeout", "200ms")

    assert code == 13
    assert "goes on" in error


def test_the_folder_of_the_suite_replaces_the_files(run: Run, tmp_path: Path, capsys):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "seed.sh").write_text("echo other")
    (tmp_path / ".hidden").write_text("x")

    command(capsys, "again", run.id, "seed", "--files", str(tmp_path))

    row = StepRepeat.objects.get()
    assert row.content_size > 0
    [claim] = take(Worker())
    prepared = api.prepare_repeat(claim)
    assert prepared is not None
    assert prepared.step_files is not None
    assert unpack(prepared.step_files) == {
        "seed.sh": b"echo other"
    }  # `unpack` leaves out the one folder


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["sead"], 1, "did you mean seed"),
        (["seed", "--env", "BREAK"], 2, "expected NAME=VALUE"),
        (["seed", "--files", "/no/such"], 1, "there is no such folder"),
        (["seed", "--timeout", "1s"], 1, "it needs --watch"),
        (["note"], 1, "only writes a line"),
    ],
)
def test_what_is_wrong_is_said(run: Run, capsys, words: list[str], code: int, text: str):
    ended, _, error = command(capsys, "again", run.id, *words)

    assert ended == code
    assert text in error
    assert not StepRepeat.objects.exists()


def test_an_environment_that_is_gone_is_a_conflict(run: Run, capsys):
    end_keeping(run)

    code, _, error = command(capsys, "again", run.id, "seed")

    assert code == 5
    assert "not_kept" in error


def test_a_value_may_have_signs_of_equality():
    assert assignment("URL=a=b") == ("URL", "a=b")


@pytest.mark.parametrize(
    ("state", "reason", "code"),
    [
        ("succeeded", "", 0),
        ("failed", "exit_nonzero", 10),
        ("failed", "agent_lost", 11),
        ("canceled", "canceled", 12),
    ],
)
def test_exit_codes_are_those_of_a_watched_run(state: str, reason: str, code: int):
    document: Any = {"state": state, "reason": reason}

    assert exit_code(document) == code
