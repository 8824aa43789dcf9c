"""`/agent-control`: a step's life by HTTP, and who may still tell of it.

(reference: control-plane 15)
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from typing import Any

import pytest

from apps.executions import api as executions
from apps.executions.models import Artifact
from apps.executions.services.cancellations import cancel
from apps.executions.services.sweep import sweep
from apps.platform_settings.services.live_settings import live_settings
from kernel import clock
from tests.apps.executions.runs import (
    Run,
    booted_run,
    let_leases_lapse,
    let_retries_be_due,
    node,
    profile,
    secret,
)
from tests.apps.workers_rest.conftest import UNKNOWN_JOB, RemoteWorker
from tests.support.api_clients import problem
from tests.support.people import somebody

pytestmark = pytest.mark.store

INT32 = 2**31


def test_a_suite_runs_to_its_end_by_http(worker):
    run = booted_run(
        node("db", kind="service"),
        node("seed", after=["db"]),
        node("unit", kind="test", after=["seed"]),
        node("lint", after=["db"]),
    )

    assert worker.claim_all() == ["db"]
    assert worker.report("db", "state", state="running").json() == {"status": "recorded"}
    assert worker.log("db", "ready for connections").json() == {"status": "recorded", "nextSeq": 1}
    worker.report("db", "state", state="healthy", message="tcp 5432 answers")
    assert worker.claim_all() == ["seed", "lint"]
    for step in ("seed", "lint"):
        worker.report(step, "state", state="running")
        worker.log(step, "one", "two")
        assert worker.complete(step, exitCode=0, finalSeq=2).json() == {"status": "completed"}
    assert worker.claim_all() == ["unit"]
    worker.complete("unit", exitCode=0)

    lease = worker.report("db", "lease").json()
    assert (lease["cancelRequested"], lease["cancelReason"]) == (True, "teardown")
    assert run.status == "Booting", "services are stopped before the verdict is stored"
    worker.complete("db", "canceled", finalSeq=1)
    assert run.status == "Healthy"
    assert run.output("seed") == ["one", "two"]
    assert run.event_ids()[-1] == "execution-healthy"


@pytest.mark.parametrize("wrong", ["9999-12-31T23:59:59.999Z", "2999-01-01T00:00:00+14:00"])
def test_a_line_of_an_absurd_time_is_kept_with_the_time_of_its_arrival(worker, wrong):
    run = booted_run(node("a"))
    worker.claim_all()
    began = clock.rfc3339(clock.now())
    lines = [{"text": "before"}, {"text": "absurd", "time": wrong}, {"text": "after"}]

    worker.report("a", "logs", seq=0, position=3, lines=lines)

    told = run.lines("output")
    assert [line["text"] for line in told] == ["before", "absurd", "after"]
    assert all(began <= line["time"] <= clock.rfc3339(clock.now()) for line in told)
    assert all(line["timestamp"] < "05:00" for line in told)  # minutes of the run


def test_a_claim_answers_the_step_spec_and_only_it_tells_secrets(worker, monkeypatch, member):
    """Invariant 19."""
    monkeypatch.setenv("PARTITA_SECRET_TOKEN", "s3cret-of-the-run")
    owner = somebody()
    with_secret = profile(secret_refs=(secret("TOKEN"),))
    run = booted_run(node("a", retries=1), principal=owner, with_profile=with_secret)

    answer = worker.post("agent-control/claims/next", {"agentId": "edge-1"})

    spec = answer.json()
    assert answer["Cache-Control"] == "no-store"
    assert (spec["env"]["TOKEN"], spec["secretKeys"]) == ("s3cret-of-the-run", ["TOKEN"])
    assert (spec["backendKind"], spec["attempt"], spec["leaseMs"]) == ("remote-agent", 1, 30_000)
    worker.jobs["a"] = spec
    others = [
        worker.report("a", "lease"),
        worker.report("a", "state", state="running"),
        worker.log("a", "hello"),
        worker.get("agents"),
        worker.post("agents/edge-1/heartbeat"),
        worker.complete("a", "failed", reason="exit_nonzero", exitCode=1),
    ]
    assert all(b"s3cret" not in other.content for other in others)
    registered = worker.register(activeJobs=[{"jobId": spec["jobId"], "attempt": 1}])
    assert "s3cret" not in str(registered)
    assert "s3cret" not in str(run.events())
    assert "s3cret" not in str(executions.detail(owner, run.id))


def test_a_cancel_is_seen_in_the_next_answer(worker):
    run = booted_run(node("a"), node("b"), node("c", after=["a"]))
    worker.claim_all()
    before = worker.report("a", "lease").json()
    assert before.pop("leaseExpiresAt")
    told = {"status": "running", "cancelRequested": False}
    assert before == told | {"leaseMs": 30_000, "leaseGraceMs": 600_000}

    cancel(run.principal, run.id, "no longer wanted")

    asked = {"cancelRequested": True, "cancelReason": "canceled"}
    assert worker.report("a", "lease").json().items() >= asked.items()
    assert worker.report("a", "state", state="running").json().items() >= asked.items()
    assert worker.log("a", "x").json() == {"status": "recorded", "nextSeq": 1} | asked
    worker.complete("a", "canceled")
    worker.complete("b", "canceled")
    assert run.status == "Canceled"


def test_usage_of_a_lease_is_shown(worker):
    run = booted_run(node("a"))
    worker.claim()
    usage = {"cpuPercent": 12.5, "memoryBytes": 2**20, "memoryPeakBytes": 2**40, "gpu": 1}

    assert worker.report("a", "lease", usage=usage).status_code == 200
    assert run.step("a").memory_peak_bytes == 2**40


def test_what_the_probe_of_a_lease_answered_is_shown(worker):
    run = booted_run(node("db", kind="service"))
    worker.claim()
    probe = {"answer": "port 5432: connection refused", "tries": 3, "timeLeftMs": 9_000, "new": 1}

    assert worker.report("db", "lease").status_code == 200
    assert "probe" not in executions.run_detail(run.id)["steps"][0]
    assert worker.report("db", "lease", probe=probe).status_code == 200
    shown = executions.run_detail(run.id)["steps"][0]["probe"]
    assert (shown["answer"], shown["tries"]) == ("port 5432: connection refused", 3)
    refused = worker.report("db", "lease", probe=probe | {"tries": -1})
    assert problem(refused) == (400, "validation_failed")


def test_without_a_status_an_error_means_failed(worker):
    run = booted_run(node("a"), node("b", after=["a"], continueOnFailure=True))
    worker.claim()
    worker.report("a", "complete", error="it broke", reason="not-a-known-reason")

    assert run.reasons["a"] == "internal_error"
    assert run.step("a").detail == "it broke"


def test_an_identical_completion_again_is_fine_and_another_is_not(worker):
    booted_run(node("a"), node("b"))
    worker.claim_all()

    assert worker.complete("a", exitCode=0).status_code == 200
    assert worker.complete("a", exitCode=0).status_code == 200
    assert problem(worker.complete("a", "failed", exitCode=1)) == (409, "stale_attempt")


def test_a_hole_in_the_log_says_where_to_go_on(worker):
    """Invariant 11."""
    run = booted_run(node("a"))
    worker.claim()
    worker.log("a", "one", "two")

    gap = worker.log("a", "four", seq=3)
    assert problem(gap) == (409, "log_gap")
    assert gap.json()["nextSeq"] == 2
    assert worker.log("a", "two", "three", seq=1).json()["nextSeq"] == 3
    early = worker.complete("a", finalSeq=4)
    assert (problem(early), early.json()["nextSeq"]) == ((409, "log_gap"), 3)
    assert run.statuses == {"a": "running"}
    assert run.output("a") == ["one", "two", "three"]


def test_a_chunk_may_be_a_thousand_lines_and_a_mebibyte(worker):
    run = booted_run(node("a"))
    worker.claim()

    assert worker.log("a", *["x"] * 1000).json()["nextSeq"] == 1000
    assert worker.log("a", *["é" * 512] * 1000, seq=1000).json()["nextSeq"] == 2000
    assert problem(worker.log("a", *["x"] * 1001, seq=2000)) == (400, "validation_failed")
    assert problem(worker.log("a", *["x" * 1050] * 1000, seq=2000)) == (413, "payload_too_large")
    assert len(run.output("a")) == 2000


def test_lines_keep_what_the_worker_says_of_them(worker):
    run = booted_run(node("a"))
    worker.claim()
    said = {
        "time": "2026-01-02T05:04:05.678+02:00",
        "level": "warn",
        "kind": "system",
        "text": " kept \u2028 as it is ",
        "continued": True,
        "later": "ignored",
    }

    assert worker.report("a", "logs", seq=0, lines=[said, {"text": ""}]).status_code == 200

    first, *_ = run.lines("system")
    assert first["time"] == "2026-01-02T03:04:05.678Z"
    assert {key: first[key] for key in ("level", "text", "continued")} == {
        key: said[key] for key in ("level", "text", "continued")
    }
    assert [line["text"] for line in run.lines("output")] == [""]


BAD_BODIES: dict[str, list[tuple[dict[str, Any], str]]] = {
    "lease": [
        ({"attempt": "1"}, "/attempt"),
        ({"attempt": 0}, "/attempt"),
        ({"attempt": INT32}, "/attempt"),
        ({"attempt": None}, "/attempt"),
        ({"usage": {"cpuPercent": -1}}, "/usage/cpuPercent"),
        ({"usage": {"memoryBytes": 2**63}}, "/usage/memoryBytes"),
        ({"usage": []}, "/usage"),
    ],
    "state": [
        ({}, "/state"),
        ({"state": "dancing"}, "/state"),
    ],
    "logs": [
        ({"lines": []}, "/seq"),
        ({"seq": -1, "lines": []}, "/seq"),
        ({"seq": 0}, "/lines"),
        ({"seq": 0, "lines": {}}, "/lines"),
        ({"seq": 0, "lines": ["x"]}, "/lines/0"),
        ({"seq": 0, "lines": [{"text": "x"}, {}]}, "/lines/1/text"),
        ({"seq": 0, "lines": [{"text": 1}]}, "/lines/0/text"),
        ({"seq": 0, "lines": [{"text": "x" * 16_385}]}, "/lines/0/text"),
        ({"seq": 0, "lines": [{"text": "x", "kind": "user"}]}, "/lines/0/kind"),
        ({"seq": 0, "lines": [{"text": "x", "level": "loud"}]}, "/lines/0/level"),
        ({"seq": 0, "lines": [{"text": "x", "continued": 1}]}, "/lines/0/continued"),
        *(
            ({"seq": 0, "lines": [{"text": "x", "time": time}]}, "/lines/0/time")
            for time in ("noon", "2026-01-01T00:00:00", "0001-01-01T00:00:00+14:00", "2026-13-01Z")
        ),
        ({"seq": 0, "position": 2**63, "lines": []}, "/position"),
    ],
    "complete": [
        ({"status": "exploded"}, "/status"),
        ({"exitCode": 2**31}, "/exitCode"),
        ({"finalSeq": -1}, "/finalSeq"),
        ({"error": {}}, "/error"),
        ({"missingArtifacts": [{"hint": "no path"}]}, "/missingArtifacts/0/path"),
        ({"missingArtifacts": [{"path": "x" * 1001}]}, "/missingArtifacts/0/path"),
        ({"missingArtifacts": [{"path": "x"}] * 51}, "/missingArtifacts"),
    ],
}


@pytest.mark.parametrize("what", ["lease", "state", "logs", "complete"])
def test_a_malformed_report_names_the_key_and_changes_nothing(worker, what):
    """Invariant 33."""
    run = booted_run(node("a"))
    worker.claim()
    before = told(run)

    for facts, pointer in BAD_BODIES[what]:
        answer = worker.report("a", what, **facts)

        assert problem(answer) == (400, "validation_failed"), facts
        assert answer.json()["errors"][0]["pointer"] == pointer, facts
        assert told(run) == before, facts


def test_only_services_report_healthy(worker):
    run = booted_run(node("a"))
    worker.claim()

    assert problem(worker.report("a", "state", state="healthy")) == (400, "validation_failed")
    assert run.statuses == {"a": "running"}


def test_workers_claim_within_the_limit_of_their_backend(worker, other, settings):
    settings.PLATFORM_SETTINGS_FILE.write_text(
        "agents:\n  - {agentId: edge, name: Edge, type: remote-agent, maxConcurrentSteps: 2}\n"
    )
    live_settings.forget()
    for nth in range(2):
        booted_run(node(f"db{nth}", kind="service"), node(f"a{nth}"), node(f"b{nth}"))
    for each in (worker, other, worker, other, worker, other):
        each.claim()

    tests = [step for each in (worker, other) for step in each.jobs if step[0] != "d"]
    assert len(tests) == 2
    assert sorted({*worker.jobs, *other.jobs} - set(tests)) == ["db0", "db1"]
    holder = worker if tests[0] in worker.jobs else other
    assert holder.complete(tests[0], status="succeeded", exitCode=0).status_code == 200
    next_one = worker.claim() or other.claim()
    assert next_one is not None
    assert (worker.claim(), other.claim()) == (None, None)


def test_bodies_are_json(worker):
    path = f"/api/v1/agent-control/jobs/{UNKNOWN_JOB}/complete"
    for body, kind, answered in [
        (b"{", "application/json", (400, "malformed_json")),
        (b'{"agentId": "\\ud800"}', "application/json", (400, "malformed_json")),
        (b"a=b", "application/x-www-form-urlencoded", (415, "unsupported_media_type")),
    ]:
        answer = worker.client.post(path, body, content_type=kind, headers=worker.bearer)
        assert problem(answer) == answered
    assert problem(worker.post("agent-control/claims/next?x=1")) == (400, "unknown_parameter")


@pytest.mark.parametrize("job_id", [UNKNOWN_JOB, "x", "%00", "%ff", "é", "job_" + "x" * 400])
def test_what_is_no_job_is_an_unknown_one(worker, job_id):
    worker.jobs["a"] = {"jobId": job_id, "attempt": 1}
    answers = [
        worker.report("a", "state", state="running"),
        worker.log("a", "x"),
        worker.complete("a"),
        worker.content("a"),
        worker.upload("a", b"x"),
        worker.report("a", "lease"),
    ]

    assert {problem(answer) for answer in answers} == {(404, "job_not_found")}


@pytest.mark.parametrize("job_id", ["nonsense", "job_" + "x" * 22])
def test_a_job_is_unknown_whatever_its_attempt(worker, job_id):
    worker.jobs["a"] = {"jobId": job_id, "attempt": 0}
    answers = [worker.content("a"), worker.upload("a", b"x", path="")]

    assert {problem(answer) for answer in answers} == {(404, "job_not_found")}


@pytest.mark.parametrize("seconds", [-1, 26, 1.5, "5", True])
def test_a_claim_waits_25_seconds_at_most(worker, seconds):
    body = {"agentId": "edge-1", "waitSeconds": seconds}

    assert problem(worker.post("agent-control/claims/next", body)) == (400, "validation_failed")


def told(run: Run) -> tuple[object, ...]:
    """All that reports could change."""
    steps = [
        (step.status, step.attempt, step.next_seq, step.position, step.unit_started_at)
        for step in map(run.step, run.statuses)
    ]
    return run.event_ids(), run.lines("", "output", "system"), steps, Artifact.objects.count()


def everything(worker: RemoteWorker, step: str) -> set[tuple[int, str]]:
    """What every report about a job is refused with."""
    answers = [
        worker.report(step, "lease"),
        worker.report(step, "state", state="running"),
        worker.log(step, "late"),
        worker.content(step),
        worker.upload(step, b"late"),
        worker.complete(step),
    ]
    return {problem(answer) for answer in answers}


STALE = {(409, "stale_attempt")}


def test_reports_of_an_earlier_attempt_are_stale(worker):
    """Invariant 7."""
    run = booted_run(node("a", retries=1), files={"x": b"y"})
    worker.claim()
    first = dict(worker.jobs)
    worker.complete("a", "failed", reason="exit_nonzero", exitCode=1)
    let_retries_be_due()
    assert worker.claim()["attempt"] == 2
    before = told(run)

    worker.jobs = first
    assert everything(worker, "a") == STALE
    assert told(run) == before


def test_reports_of_another_agent_are_stale(worker, other):
    """Invariant 7."""
    run = booted_run(node("a"), files={"x": b"y"})
    worker.claim()
    before = told(run)

    other.jobs = worker.jobs
    assert everything(other, "a") == STALE
    assert told(run) == before


def test_reports_after_a_new_start_that_did_not_name_the_job_are_stale(worker):
    """Invariant 7: an earlier incarnation has no token any more, its jobs are another's."""
    run = booted_run(node("a", idempotent=True), files={"x": b"y"})
    worker.claim()
    worker.report("a", "state", state="running")
    old = RemoteWorker(worker.token, jobs=worker.jobs)
    worker.register()
    before = told(run)

    assert everything(old, "a") == {(401, "agent_credential_invalid")}
    assert everything(worker, "a") == STALE
    assert told(run) == before


def test_reports_of_a_worker_that_was_frozen_past_its_lease_are_stale(worker):
    """Invariants 6, 7."""
    run = booted_run(node("a", idempotent=True), files={"x": b"y"})
    worker.claim()
    worker.report("a", "state", state="running")
    let_leases_lapse()
    sweep()
    before = told(run)

    assert everything(worker, "a") == STALE
    assert told(run) == before


def test_reports_after_the_end_are_stale(worker):
    """Invariants 4, 7."""
    run = booted_run(node("a"), node("b"), files={"x": b"y"})
    worker.claim_all()
    worker.complete("a", exitCode=0)
    before = told(run)

    refused = everything(worker, "a")

    assert refused == STALE
    assert told(run) == before


def test_content_is_what_the_spec_says(worker):
    booted_run(node("a"), files={"suite.star": b"task.run()", "sub/run.sh": b"echo"})
    spec = worker.claim()

    answer = worker.content("a")

    assert answer["Content-Type"] == "application/gzip"
    assert answer["Digest"] == spec["content"]["digest"]
    assert spec["content"]["size"] == len(answer.content)
    assert spec["content"]["digest"] == f"sha256:{hashlib.sha256(answer.content).hexdigest()}"
    with tarfile.open(fileobj=io.BytesIO(answer.content), mode="r:gz") as archive:
        assert set(archive.getnames()) == {"suite.star", "sub/run.sh"}


@pytest.mark.parametrize("attempt", ["", "0", "x", "-1", str(2**31), "²"])
def test_content_wants_an_attempt(worker, attempt):
    booted_run(node("a"), files={"x": b"y"})
    worker.claim()

    assert problem(worker.content("a", attempt=attempt)) == (400, "invalid_parameter")


def test_an_artifact_is_stored_once(worker):
    booted_run(node("a"))
    worker.claim()

    first = worker.upload("a", b"hello", name="report", on="always")
    again = worker.upload("a", b"hello", name="report", on="always")
    changed = worker.upload("a", b"hello!", name="report", on="always")

    assert [answer.status_code for answer in (first, again, changed)] == [201, 200, 201]
    assert first.json() == again.json() == {"artifactId": "a-report-raw"}
    assert changed.json() == {"artifactId": "a-report-raw-2"}
    stored = Artifact.objects.get(artifact_id="a-report-raw")
    assert (stored.size, stored.media_type, stored.on) == (5, "text/plain", "always")


def test_an_artifact_has_ten_mebibytes_at_most(worker):
    booted_run(node("a"))
    worker.claim()
    body = os.urandom(1024) * 10_240

    assert worker.upload("a", body, "application/octet-stream").status_code == 201
    assert problem(worker.upload("a", body + b"x")) == (413, "payload_too_large")


@pytest.mark.parametrize("media_type", ["multipart/form-data", "application/json", "odd", "é"])
def test_any_media_type_is_taken_as_bytes(worker, media_type):
    booted_run(node("a"))
    worker.claim()

    assert worker.upload("a", b"\x00\xff{", media_type).status_code == 201


@pytest.mark.parametrize(
    "query",
    [
        {"path": None},
        {"path": ""},
        {"path": "a\x00b"},
        {"path": "x" * 1001},
        {"attempt": None},
        {"format": "pdf"},
        {"on": "sometimes"},
        {"name": "a\nb"},
    ],
)
def test_an_artifact_that_is_described_badly_is_refused(worker, query):
    booted_run(node("a"))
    worker.claim()

    assert problem(worker.upload("a", b"x", **query)) == (400, "invalid_parameter")
    assert not Artifact.objects.exists()


def test_a_report_that_counts_failures_fails_the_step(worker):
    exports = [{"path": "junit.xml", "format": "junit", "on": "always"}]
    run = booted_run(node("a", kind="test", artifactExports=exports))
    worker.claim()
    junit = b"<testsuite><testcase name='x'><failure/></testcase></testsuite>"

    worker.upload("a", junit, "application/xml", path="junit.xml", format="junit", on="always")
    worker.complete("a", exitCode=0)

    assert run.reasons == {"a": "test_failures"}
