"""Files that steps export, and what their test reports decide."""

from __future__ import annotations

from apps.executions import api
from apps.executions.models import Artifact, Blob
from kernel.agent_protocol import MissingArtifact, job_of
from tests.apps.executions.runs import Worker, booted_run, let_retries_be_due, node
from tests.apps.executions.test_fencing import upload

RED = b"<testsuite><testcase name='a'/><testcase name='b'><failure/></testcase></testsuite>"
GREEN = (
    b"<testsuite><testcase name='a' time='0.5'/>"
    b"<testcase name='b'><skipped/></testcase></testsuite>"
)
EXPORTS = [{"path": "junit.xml", "on": "always", "format": "junit", "required": False}]


def store(worker: Worker, step: str, body: bytes, **facts: str) -> tuple[str, bool]:
    job = job_of(worker.jobs[step])
    return api.store_artifact(worker.supervisor, job, upload(body, **facts))


def junit(worker: Worker, step: str, body: bytes) -> tuple[str, bool]:
    return store(worker, step, body, path="junit.xml", format="junit", media_type="application/xml")


def test_the_same_file_again_is_the_same_artifact(worker: Worker):
    booted_run(node("a"))
    worker.claim()
    assert store(worker, "a", b"one") == ("a-out-txt-raw", True)
    assert store(worker, "a", b"one") == ("a-out-txt-raw", False)
    assert store(worker, "a", b"two") == ("a-out-txt-raw-2", True)
    assert (Artifact.objects.count(), Blob.objects.count()) == (2, 2)


def test_a_report_with_failures_fails_the_step_though_it_exited_well(worker: Worker):
    """Invariant 1."""
    run = booted_run(node("unit", kind="test", artifactExports=EXPORTS))
    worker.claim()
    junit(worker, "unit", RED)
    worker.end("unit")
    assert run.reasons == {"unit": "test_failures"}
    assert run.step("unit").detail == "1 of 2 tests failed"


def test_a_report_without_failures_is_counted_and_fine(worker: Worker):
    run = booted_run(node("unit", kind="test", artifactExports=EXPORTS))
    worker.claim()
    junit(worker, "unit", GREEN)
    worker.end("unit")
    assert run.status == "Healthy"
    assert Artifact.objects.get().test_summary == {
        "total": 2,
        "passed": 1,
        "failures": 0,
        "errors": 0,
        "skipped": 1,
        "durationSeconds": 0.5,
    }
    assert "unit-artifacts" in run.event_ids()


def test_reports_do_not_count_where_a_failing_exit_was_expected(worker: Worker):
    facts = {"artifactExports": EXPORTS, "evaluation": {"expectExit": 1}}
    run = booted_run(node("unit", kind="test", **facts))
    worker.claim()
    junit(worker, "unit", RED)
    worker.end("unit", exit_code=1)
    assert run.status == "Healthy"


def test_a_report_of_an_earlier_attempt_does_not_count(worker: Worker):
    run = booted_run(node("unit", kind="test", retries=1, artifactExports=EXPORTS))
    worker.claim()
    junit(worker, "unit", RED)
    worker.end("unit")
    assert run.statuses == {"unit": "queued"}
    let_retries_be_due()
    worker.claim()
    junit(worker, "unit", GREEN)
    worker.end("unit")
    assert run.status == "Healthy"


def test_an_unreadable_report_is_kept_and_said(worker: Worker):
    """Invariant 33: no DTD, no entities, no server error."""
    run = booted_run(node("unit", kind="test", artifactExports=EXPORTS))
    worker.claim()
    evil = b'<!DOCTYPE x [<!ENTITY e "e">]><testsuite>&e;</testsuite>'
    junit(worker, "unit", evil)
    worker.end("unit")
    warned = [event for event in run.events() if event["level"] == "warn"]
    assert [event["id"] for event in warned] == ["unit-artifacts"]
    assert Artifact.objects.get().test_summary is None


def test_a_ctrf_report_whose_summary_counts_failures_fails_the_step(worker: Worker):
    """Invariant 1: its list of tests may be empty."""
    exports = [{"path": "ctrf.json", "on": "always", "format": "ctrf", "required": False}]
    run = booted_run(node("unit", kind="test", artifactExports=exports))
    worker.claim()
    body = b'{"results":{"summary":{"tests":3,"passed":1,"failed":2},"tests":[]}}'
    store(worker, "unit", body, path="ctrf.json", format="ctrf", media_type="application/json")

    worker.end("unit")

    assert run.reasons == {"unit": "test_failures"}
    assert run.step("unit").detail == "2 of 3 tests failed"


def test_a_report_with_the_path_of_expected_calls_counts(worker: Worker):
    """Invariant 1."""
    exports = [{"path": "expect_calls.xml", "on": "always", "format": "junit", "required": True}]
    run = booted_run(node("unit", kind="test", artifactExports=exports))
    worker.claim()
    store(worker, "unit", RED, path="expect_calls.xml", format="junit")
    worker.end("unit")

    assert run.reasons["unit"] == "test_failures"


def test_a_missing_artifact_is_a_warning_of_its_step(worker: Worker):
    run = booted_run(node("unit", kind="test", artifactExports=EXPORTS))
    worker.claim()

    worker.end("unit", missing_artifacts=(MissingArtifact(path="junit.xml", hint="look there"),))

    document = api.run_detail(run.id)
    (event,) = [each for each in document["events"] if each["level"] == "warn"]
    assert run.status == "Healthy"
    assert document["steps"][0]["missingArtifacts"] == [{"path": "junit.xml", "hint": "look there"}]
    assert (event["source"], event["text"]) == ("unit", "unit left no file junit.xml: look there")


def test_the_warning_of_an_earlier_attempt_goes_with_it(worker: Worker):
    run = booted_run(node("unit", kind="test", retries=1, artifactExports=EXPORTS))
    worker.claim()
    worker.fail("unit", missing_artifacts=(MissingArtifact(path="junit.xml"),))
    let_retries_be_due()
    worker.claim()

    junit(worker, "unit", GREEN)
    worker.end("unit")

    assert "missingArtifacts" not in api.run_detail(run.id)["steps"][0]
