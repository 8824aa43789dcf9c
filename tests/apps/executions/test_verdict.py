"""The verdict on stored runs: lists, commands and responses say the same."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from defusedxml.ElementTree import fromstring
from rich.console import Console

from apps.executions import api, terminal_view
from apps.executions.domain.phrases import plain_text
from apps.executions.models import Execution
from apps.executions.selectors.junit_report import junit_document
from apps.executions.services.cancellations import cancel
from apps.executions.services.sweep import sweep
from kernel.agent_protocol import ArtifactUpload, job_of
from partita_client.command.parser import parse_verb
from partita_client.command.program import find_noun
from tests.apps.executions.runs import (
    Run,
    Worker,
    booted_run,
    deadline_is_over,
    node,
    profile,
    queued_run,
)
from tests.support.client_views import TypedWords, ask_views_as

JUNIT = {"path": "report.xml", "format": "junit", "on": "always"}
ANSI_REPORT = b"""<testsuite>
<testcase name="adds up" classname="shop.cart">
<failure message="expected 3 items,&#10;  got 2">trace</failure></testcase>
<testcase name="opens" classname="shop.cart"/></testsuite>"""


def export_report(worker: Worker, step: str, body: bytes = ANSI_REPORT) -> None:
    upload = ArtifactUpload(
        path="report.xml", name="", format="junit", on="always", media_type="application/xml",
        body=body,
    )  # fmt: skip
    api.store_artifact(worker.supervisor, job_of(worker.jobs[step]), upload)


@pytest.fixture
def torture(worker: Worker) -> Run:
    """Forty steps beside each other: test-5 has a red report, load-data-5 exits with 3."""
    names = [f"load-data-{n}" for n in range(1, 31)] + [f"test-{n}" for n in range(1, 11)]
    nodes = [node(name, artifactExports=[JUNIT] if name == "test-5" else []) for name in names]
    run = booted_run(*nodes)
    while healthy := [step for step in worker.claim() if step not in ("load-data-5", "test-5")]:
        for step in healthy:
            worker.end(step)
    for step in ("load-data-5", "test-5"):
        worker.report(step, "running")
    worker.log("load-data-5", "loading", "\x1b[31mno such table\x1b[0m")
    worker.fail("load-data-5", exit_code=3, error="exit code 3", final_seq=2)
    export_report(worker, "test-5")
    worker.end("test-5")
    return run


def printed_run(run: Run, *, terminal: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=80, highlight=False)
    terminal_view.print_run(api.run_detail(run.id), console)
    return out.getvalue()


def _without_colors(text: str) -> str:
    return "\n".join(plain_text(line) for line in text.splitlines())


@pytest.fixture
def type_in(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """What `partita run …` prints to who launched the run."""

    def ask(run: Run, *words: str) -> str:
        ask_views_as(monkeypatch, run.principal)
        code, out, err = TypedWords(capsys)("run", *words)
        assert code == 0, err
        return out

    return ask


def test_the_sentence_in_lists_is_that_of_the_verdict(torture: Run):
    detail = api.detail(torture.principal, torture.id)

    assert detail["sentence"] == "load-data-5 exited with code 3; 1 more step failed"
    assert detail["verdict"]["sentence"] == detail["sentence"]
    assert detail["reasonDetail"] == "load-data-5: exit_nonzero (exit code 3)", "codes for programs"


def test_a_red_report_is_told_with_its_case_and_message(torture: Run):
    steps = {step["stepId"]: step for step in api.run_detail(torture.id)["verdict"]["steps"]}

    assert steps["test-5"]["sentence"] == "test-5: 1 of 2 tests failed"
    assert steps["test-5"]["cases"] == [
        {"name": "adds up", "classname": "shop.cart", "message": "expected 3 items, got 2"}
    ]
    assert steps["test-5"]["wroteNothing"]
    assert [line["text"] for line in steps["load-data-5"]["lines"]] == ["loading", "no such table"]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_ends_with_the_reason_and_folds_what_is_healthy(torture: Run, terminal: bool):
    text = _without_colors(printed_run(torture, terminal=terminal))

    for expected in (
        "load-data-5 exited with code 3",
        "no such table",
        "test-5: 1 of 2 tests failed",
        "expected 3 items, got 2",
        "the step wrote nothing",
        "38 steps healthy",
    ):
        assert expected in text
    assert "exit_nonzero" not in text
    assert "load-data-6" not in text
    assert len(text.splitlines()) < 14
    assert text.splitlines()[-1] == f"next: partita run logs {torture.id} --failed"


def test_the_next_command_is_one_that_the_client_has(worker: Worker):
    run = booted_run(node("a"), node("b"))
    for step in worker.claim():
        worker.report(step, "running")
    worker.fail("a")
    program, noun, name, *words = api.run_detail(run.id)["verdict"]["next"].split()

    known = find_noun(noun)
    assert (program, noun) == ("partita", "run")
    assert known is not None
    assert (verb := known.find(name)) is not None
    assert parse_verb(known, verb, words).run == run.id


def test_why_is_the_verdict_alone(torture: Run, type_in: Callable[..., str]):
    told = type_in(torture, "why", torture.id)
    as_json = type_in(torture, "why", torture.id, "-o", "json")

    assert "test-5: 1 of 2 tests failed" in told
    assert "healthy" not in told
    assert '"sentence": "load-data-5 exited with code 3; 1 more step failed"' in as_json


def test_a_list_has_sentences_and_no_codes(torture: Run, type_in: Callable[..., str]):
    told = type_in(torture, "list")

    assert "load-data-5 exited with code 3; 1 more step failed" in told
    assert "step_failed" not in told


def test_a_run_that_still_fails_says_why_at_once(worker: Worker):
    run = booted_run(node("a"), node("b"))
    worker.claim()
    worker.fail("a", exit_code=7, error="exit code 7")

    told = api.detail(run.principal, run.id)

    assert (told["status"], told["sentence"]) == ("Booting", "a exited with code 7")


def test_tests_that_exit_with_one_are_told_by_their_report(worker: Worker):
    run = booted_run(node("unit", artifactExports=[JUNIT]))
    worker.claim()
    export_report(worker, "unit")
    worker.fail("unit")

    assert run.row.sentence == "unit: 1 of 2 tests failed (exit code 1)"
    assert run.step("unit").reason == "exit_nonzero"


def test_a_skipped_step_names_the_step_at_the_root(worker: Worker, type_in: Callable[..., str]):
    run = booted_run(node("db"), node("api", after=["db"]), node("e2e", after=["api"]))
    worker.claim()
    worker.fail("db", exit_code=3, error="exit code 3")

    told = type_in(run, "show", run.id, "--all")

    assert "✗ db exited with code 3" in told
    assert " dependency skipped" in told
    assert "– 2 steps skipped: api, e2e" in type_in(run, "show", run.id)


def test_a_run_that_is_too_long_says_so(worker: Worker):
    run = booted_run(node("a"))
    worker.claim()
    deadline_is_over(run)
    sweep()

    assert run.row.sentence.startswith("The run took longer than ")


def test_a_canceled_run_says_by_whom_when_and_why(worker: Worker):
    run = booted_run(node("a"))
    worker.claim()
    cancel(run.principal, run.id, "wrong branch")
    worker.end("a", "canceled")

    told = api.detail(run.principal, run.id)

    at = told["verdict"]["canceled"]["at"]
    assert told["verdict"]["canceled"] == {
        "by": "Ada Lovelace (ada@example.org)", "at": at, "reason": "wrong branch",
    }  # fmt: skip
    assert told["sentence"] == (
        f"Canceled by Ada Lovelace (ada@example.org) at {at[:10]} {at[11:19]}Z: wrong branch"
    )
    assert f"■ Demo: Canceled after {told['duration']}  {told['sentence']}" in printed_run(run)
    texts = [event["text"] for event in run.events() if event["source"] == "execution"]
    assert texts[-2:] == [
        "cancel requested by Ada Lovelace (ada@example.org): wrong branch",
        "canceled by Ada Lovelace (ada@example.org): wrong branch",
    ]


def test_a_run_canceled_before_it_started_says_the_same():
    run = queued_run(node("a"))
    cancel(run.principal, run.id)

    assert run.row.sentence.startswith("Canceled by Ada Lovelace (ada@example.org) at ")


def test_rows_of_an_older_release_have_words_too(torture: Run):
    Execution.objects.filter(pk=torture.pk).update(sentence="")

    assert api.detail(torture.principal, torture.id)["sentence"] == "load-data-5 exited with code 3"


def test_a_run_that_keeps_no_output_does_not_say_that_a_step_wrote_nothing(worker: Worker):
    run = booted_run(node("a"), with_profile=profile(observability={"logs": False}))
    worker.claim()
    worker.report("a", "running")
    worker.fail("a")

    assert not api.run_detail(run.id)["verdict"]["steps"][0]["wroteNothing"]


def test_junit_tells_the_verdict_and_the_last_lines(torture: Run):
    document = fromstring(junit_document(torture.principal, torture.id))

    suites = {suite.get("name"): suite for suite in document.iter("testsuite")}
    loading = suites["load-data-5"]
    assert {one.get("name"): one.get("value") for one in loading.iter("property")} == {
        "run": torture.id,
        "status": "Failed",
        "verdict": "load-data-5 exited with code 3; 1 more step failed",
    }
    assert loading.findtext("system-out") == (
        "load-data-5 exited with code 3\nloading\nno such table"
    )
    failure = loading.find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == "load-data-5 exited with code 3"
    assert "load-data-6" not in suites, "a task that is healthy is no test"
    assert suites["test-5"].findtext("system-out") == (
        "test-5: 1 of 2 tests failed\nthe step wrote nothing"
    )
