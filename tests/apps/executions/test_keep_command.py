"""`run keep`, and `--keep` of `run rerun`, as people type them."""

from __future__ import annotations

import json

import pytest

from apps.executions import api
from apps.executions.models import Execution
from tests.apps.executions.runs import Run, Worker
from tests.apps.executions.test_kept_environments import fail_in, world
from tests.apps.executions.test_rerun_command import command
from tests.support.client_views import ask_views

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def kept(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> Run:
    ask_views(monkeypatch)
    return fail_in(worker, world())


def test_it_is_extended_and_ended(capsys, kept: Run):
    code, out, _ = command(capsys, "keep", kept.id, "--for", "1h")
    assert (code, kept.row.keep_alive_ms) == (0, 3_600_000)
    assert out.startswith(f"{kept.id}: its environment is kept until ")
    _, document, _ = command(capsys, "keep", kept.id, "--for", "2h", "-o", "json")
    assert json.loads(document)["keepAliveMs"] == 7_200_000
    assert command(capsys, "keep", kept.id, "--end")[0] == 0
    assert not api.is_kept(kept.id)
    code, _, error = command(capsys, "keep", kept.id, "--end")
    assert (code, "was kept until" in error) == (5, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--for", "soon"), "expected a duration"),
        (("--for", "5h"), "at most 4h"),
        ((), "one of the arguments --for --end is required"),
        (("--for", "1h", "--end"), "not allowed with"),
    ],
)
def test_what_it_cannot_do_is_said_by_the_option(capsys, kept: Run, words, says):
    code, _, error = command(capsys, "keep", kept.id, *words)
    assert code == 2
    assert says in error


@pytest.mark.parametrize(
    ("word", "keep_ms", "only_failed"), [("30m", 1_800_000, False), ("no", 0, False)]
)
def test_a_rerun_keeps_as_it_is_asked(capsys, kept: Run, word, keep_ms, only_failed):
    assert command(capsys, "rerun", kept.id, "--keep", word)[0] == 0
    again = Execution.objects.get(rerun_of=kept.id)
    assert (again.keep_alive_ms, again.keep_only_failed) == (keep_ms, only_failed)


def test_the_verdict_of_a_run_says_how_long_its_environment_stays(capsys, kept: Run):
    out = command(capsys, "show", kept.id)[1]
    assert "its environment is kept until " in out
    assert f"partita run keep {kept.id} --for 30m, or --end" in out
