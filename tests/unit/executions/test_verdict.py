"""The words of verdicts: one sentence for each kind of failure, and everything said once."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from apps.executions.domain.phrases import _CLAUSES, _PREDICATES, failure_phrase, plain_text
from apps.executions.domain.states import RunReason, StepReason
from apps.executions.domain.verdict import (
    FailedStep,
    QueueTurn,
    RunOutcome,
    StepEvidence,
    run_sentence,
    verdict_of,
)

REGISTRY = 'Get "https://registry.invalid/v2/": dial tcp: lookup registry.invalid: no such host'


@pytest.mark.parametrize(
    ("step", "reason", "detail", "code", "sentence", "words"),
    [
        (
            "nopull",
            "image_missing",
            f"image registry.invalid/none:1 could not be pulled: {REGISTRY}",
            None,
            "nopull: image registry.invalid/none:1 could not be pulled",
            REGISTRY,
        ),
        (
            "nopull",
            "image_missing",
            f"image a:1 is not present and cannot be pulled: {REGISTRY}",
            None,
            "nopull: image a:1 could not be pulled",
            REGISTRY,
        ),
        (
            "nopull",
            "image_missing",
            "image a:1 is not present, and STEP_IMAGE_PULL_POLICY is Never",
            None,
            "nopull: image a:1 is not present, and STEP_IMAGE_PULL_POLICY is Never",
            "",
        ),
        ("load-data-5", "exit_nonzero", "exit code 3", 3, "load-data-5 exited with code 3", ""),
        ("load", "exit_nonzero", "", 3, "load exited with code 3", ""),
        (
            "unit",
            "exit_nonzero",
            "exit code 1; 1 of 12 tests failed",
            1,
            "unit: 1 of 12 tests failed (exit code 1)",
            "",
        ),
        (
            "unit",
            "exit_nonzero",
            "exit code 1; no line contains 'done'",
            1,
            "unit exited with code 1; no line contains 'done'",
            "",
        ),
        (
            "unit",
            "exit_nonzero",
            "no such shell",
            127,
            "unit exited with code 127",
            "no such shell",
        ),
        (
            "wrong",
            "exit_unexpected",
            "exit code 0, expected 3",
            0,
            "wrong exited with code 0, expected 3",
            "",
        ),
        ("test-5", "test_failures", "1 of 12 tests failed", 0, "test-5: 1 of 12 tests failed", ""),
        (
            "api",
            "not_ready",
            "its readiness probe did not pass within 60 s: port 8080: connection refused",
            None,
            "api did not become ready within 60 s: port 8080: connection refused",
            "",
        ),
        ("api", "not_ready", "the step did not end in time", None, "api did not end in time", ""),
        ("db", "service_exited", "ended with exit code 137", 137, "db exited with code 137", ""),
        (
            "db",
            "service_exited",
            "ended with exit code 0",
            0,
            "db exited with code 0, but a service must keep running",
            "",
        ),
        (
            "db",
            "service_exited",
            "the service exited before it was ready",
            0,
            "db exited before it was ready",
            "",
        ),
        (
            "slow",
            "timeout",
            "still running after 30 s",
            137,
            "slow was still running after 30 s",
            "",
        ),
        (
            "big",
            "oom_killed",
            "killed: out of its memory limit; exit code 137",
            137,
            "big was killed because it exceeded its memory limit",
            "",
        ),
        (
            "unit",
            "artifact_missing",
            "artifact report.xml is missing",
            0,
            "unit: artifact report.xml is missing",
            "",
        ),
        (
            "api",
            "agent_lost",
            "runner-1 was lost: the lease was not renewed",
            None,
            "api: runner-1 was lost",
            "the lease was not renewed",
        ),
        (
            "api",
            "agent_unavailable",
            "no supervisor of Local Docker was online for 60 s",
            None,
            "api: no supervisor of Local Docker was online for 60 s",
            "",
        ),
        ("odd", "brand_new", "", None, "odd: brand new", ""),
        ("red", "expect_logs_missing", "\x1b[31mno\x1b[0m line\n", None, "red: no line", ""),
    ],
)
def test_a_failure_is_one_sentence_that_says_everything_once(
    step: str, reason: str, detail: str, code: int | None, sentence: str, words: str
):
    phrase = failure_phrase(reason, detail, code)

    assert phrase.about(step) == sentence
    assert phrase.words == words


@pytest.mark.parametrize("reason", sorted({*StepReason, *RunReason}))
def test_every_reason_has_words_without_its_code(reason: str):
    words = {**_PREDICATES, **_CLAUSES}[reason]

    assert "_" not in words
    assert not words.endswith(".")


def failed(*steps: FailedStep, counts: Mapping[str, int] | None = None) -> RunOutcome:
    return RunOutcome(
        run_id="run-1",
        status="Failed",
        failing=True,
        reason="step_failed",
        counts=counts or {},
        failed=steps,
    )


LOAD = FailedStep(step_id="load", reason="exit_nonzero", detail="exit code 3", exit_code=3)


def test_a_step_that_failed_after_another_names_the_chain():
    link = {"stepId": "store", "reason": "service_exited", "exitCode": 137}
    step = FailedStep(step_id="check", reason="exit_nonzero", exit_code=1, cause=[link])  # type: ignore[list-item]

    verdict = verdict_of(failed(step), {})

    assert verdict["sentence"] == "check exited with code 1"
    assert verdict["steps"][0]["causes"] == ["store exited with code 137"]


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (
            RunOutcome(
                run_id="r", status="Failed", reason="run_timeout",
                detail="the run took longer than 25 s",
            ),
            "The run took longer than 25 s",
        ),
        (
            RunOutcome(run_id="r", status="Failed", reason="secret_unresolved"),
            "A secret could not be resolved",
        ),
        (
            RunOutcome(
                run_id="r", status="Failed", reason="step_failed",
                detail="test-5: test_failures (exit code 0)",
            ),
            "test-5: tests failed",
        ),
        (
            RunOutcome(
                run_id="r", status="Failed", reason="step_failed",
                detail="api: not_ready, after store: agent_lost",
            ),
            "api did not become ready in time",
        ),
        (
            RunOutcome(
                run_id="r", status="Canceled",
                canceled={
                    "by": "Finn (finn@example.org)", "at": "2026-11-24T17:05:33.120Z",
                    "reason": "wrong branch",
                },
            ),
            "Canceled by Finn (finn@example.org) at 2026-11-24 17:05:33Z: wrong branch",
        ),
        (RunOutcome(run_id="r", status="Canceled"), "Canceled"),
        (
            RunOutcome(run_id="r", status="Queued", turn=QueueTurn(3)),
            "Waiting for its turn: number 3 in the queue",
        ),
        (
            RunOutcome(run_id="r", status="Booting", counts={"healthy": 3, "running": 2}),
            "3 of 5 steps healthy, 2 running",
        ),
        (
            RunOutcome(run_id="r", status="Healthy", counts={"healthy": 36, "failed": 1}),
            "36 steps healthy, 1 failed and was allowed to",
        ),
    ],
)  # fmt: skip
def test_a_run_is_one_sentence(run: RunOutcome, sentence: str):
    assert run_sentence(run) == sentence


def test_many_failures_are_bounded_and_counted():
    steps = [
        FailedStep(step_id=f"s{number}", reason="exit_nonzero", exit_code=1) for number in range(5)
    ]

    verdict = verdict_of(failed(*steps, counts={"failed": 17, "healthy": 23}), {})

    assert verdict["sentence"] == "s0 exited with code 1; 16 more steps failed"
    assert (len(verdict["steps"]), verdict["moreSteps"], verdict["healthySteps"]) == (5, 12, 23)
    assert verdict["next"] == "partita run logs run-1 --failed"


def test_the_evidence_of_a_step_is_bounded():
    lines = [{"number": number, "text": "x"} for number in range(1, 100)]
    cases = [{"name": f"c{n}", "classname": "", "message": ""} for n in range(100)]
    evidence = StepEvidence(lines=lines, cases=cases, total_cases=120)  # type: ignore[arg-type]

    step = verdict_of(failed(LOAD), {"load": evidence})["steps"][0]

    assert [line["number"] for line in step["lines"]] == list(range(92, 100))
    assert (len(step["cases"]), step["moreCases"]) == (5, 115)


@pytest.mark.parametrize(
    ("step", "evidence", "wrote_nothing"),
    [
        (LOAD, StepEvidence(), True),
        (LOAD, StepEvidence(lines=[{"number": 1, "text": "x"}]), False),
        (LOAD, StepEvidence(is_output_known=False), False),
        (FailedStep(step_id="load", reason="image_missing", has_run=False), StepEvidence(), False),
    ],
)
def test_a_step_that_ran_without_a_line_wrote_nothing(
    step: FailedStep, evidence: StepEvidence, wrote_nothing: bool
):
    verdict = verdict_of(failed(step), {"load": evidence})

    assert verdict["steps"][0]["wroteNothing"] is wrote_nothing


def test_the_next_command_is_one_for_a_shell():
    step = FailedStep(step_id="a b", reason="exit_nonzero", exit_code=1)

    assert verdict_of(failed(step), {})["next"] == "partita run logs run-1 --source 'a b'"


def test_a_sentence_has_a_limit():
    step = FailedStep(step_id="red", reason="internal_error", detail="x" * 10_000)

    assert len(run_sentence(failed(step))) == 500


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b[31mred\x1b[0m and \x1b[1;4mbold\x1b[m", "red and bold"),
        ("\x1b]8;;https://example.org\x07link\x1b]8;;\x07", "link"),
        ("\x1b]0;never ends", ""),
        ("a\rb\x00c\td", "abc\td"),
    ],
)
def test_lines_are_without_controls(text: str, plain: str):
    assert plain_text(text) == plain
