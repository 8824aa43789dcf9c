"""`run rerun` against the views, and what `run show` says of attempts."""

from __future__ import annotations

import io
import json
import sys

import pytest

from apps.executions.models import Execution
from tests.apps.executions.runs import Run, Worker, booted_run, node, profile
from tests.support.client_views import TypedWords, ask_views_as
from tests.support.people import somebody

pytestmark = pytest.mark.django_db(transaction=True)
PLAN = """\
{run} again: demo with ci.yaml on Local Docker
  db     needed by check
  check  failed
  not run: lint (succeeded, and no step that runs again needs it)
2 of 3 steps run again: 1 that failed or did not run, 1 needed by it.
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> Run:
    principal = somebody()
    ask_views_as(monkeypatch, principal)
    nodes = (node("db"), node("lint"), node("check", after=["db"]))

    def ended_run(wrong: str) -> Run:
        of_wrong = profile(file_name="ci.yaml", env={"WRONG": wrong})
        made = booted_run(*nodes, principal=principal, with_profile=of_wrong)
        while claimed := worker.claim():
            for step in claimed:
                (worker.fail if step == wrong else worker.end)(step)
        return made

    ended_run("")  # healthy
    return ended_run("check")


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Return the exit code, stdout and stderr."""
    return TypedWords(capsys)("run", *words)


def reruns() -> int:
    return Execution.objects.exclude(rerun_of="").count()


def test_a_dry_run_prints_the_plan_and_starts_nothing(capsys, run: Run):
    code, out, error = command(capsys, "rerun", run.id, "--failed", "--dry-run")

    assert (code, out, error) == (0, PLAN.format(run=run.id), "")
    document = command(capsys, "rerun", run.id, "--failed", "--dry-run", "-o", "json")[1]
    assert [step["id"] for step in json.loads(document)["steps"]] == ["db", "check"]
    assert reruns() == 0


def test_the_plan_comes_first_and_stdout_has_the_id(capsys, run: Run):
    code, out, error = command(capsys, "rerun", run.id, "--failed")

    again = Execution.objects.get(rerun_of=run.id)
    assert (code, out) == (0, f"{again.run_id}\n")
    assert error.startswith(PLAN.format(run=run.id))


@pytest.mark.parametrize(
    ("answer", "words", "starts"),
    [
        ("y\n", (), True),
        ("n\n", (), False),
        ("\n", (), False),
        ("", (), False),  # the terminal went away
        ("", ("--yes",), True),
    ],
)
def test_a_person_on_a_terminal_is_asked(
    capsys, monkeypatch: pytest.MonkeyPatch, run: Run, answer, words, starts
):
    monkeypatch.setattr(sys, "stdin", Terminal(answer))

    ended, _out, error = command(capsys, "rerun", run.id, "--step", "lint", *words)

    assert (ended, reruns()) == ((0, 1) if starts else (1, 0))
    assert ("run these steps? [y/N]" in error) is (not words)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("run-0123456789ab",), 3, "execution not found"),
        (("{run}", "--step", "chek", "--yes"), 1, "did you mean check?"),
        (("{run}", "--step", "db", "--failed"), 2, "not allowed with"),
        (("{run}", "--profile", "none.yaml"), 5, "launch the suite instead"),
        (("{run}", "--timeout", "5s"), 2, "it needs --watch"),
    ],
)
def test_refusals_have_the_exit_codes_of_a_launch(capsys, run: Run, words, code, sentence):
    ended, _out, error = command(capsys, "rerun", *(word.format(run=run.id) for word in words))

    assert ended == code
    assert sentence in " ".join(error.split())
    assert reruns() == 0


def test_show_has_the_attempts_and_what_differs_since_the_green_run(capsys, run: Run):
    assert "attempts:" not in command(capsys, "show", run.id)[1]
    second = command(capsys, "rerun", run.id)[1].strip()

    _code, out, _error = command(capsys, "show", run.id, "--since-green")

    assert "attempts: 1 failed → 2 queued\n" in out
    assert f"  1  failed  {run.id}" in out
    assert f"  2  queued  {second}" in out
    assert "1 difference since run-" in out
    assert "  env WRONG (profile)  set → another value\n" in out
    document = json.loads(command(capsys, "show", run.id, "--since-green", "-o", "json")[1])
    assert document["sinceGreen"]["differences"][0]["name"] == "WRONG"
    assert [each["number"] for each in document["attempts"]] == [1, 2]
