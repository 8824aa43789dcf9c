"""A run from acceptance to its end, driven by a supervisor without containers."""

from __future__ import annotations

import hashlib

from apps.executions import api
from apps.executions.models import Snapshot
from apps.executions.services.admission import dispatch
from apps.executions.services.sweep import sweep
from kernel.agent_protocol import job_of
from kernel.errors import InvalidInput
from tests.apps.executions.runs import (
    Worker,
    booted_run,
    deadline_is_over,
    let_retries_be_due,
    node,
    profile,
    queued_run,
    secret,
)


def test_a_run_goes_from_queued_through_booting_to_healthy(worker: Worker):
    run = queued_run(node("build"), node("check", after=["build"], kind="test"))
    assert run.status == "Queued"

    dispatch()
    assert worker.claim() == ["build"]
    worker.report("build", "running")
    worker.log("build", "compiling", "done")
    worker.end("build", final_seq=2)
    assert worker.claim() == ["check"]
    worker.end("check")

    assert run.status == "Healthy"
    assert run.event_ids() == [
        "execution-queued",
        "execution-booting",
        "build-queued",
        "build-claimed",
        "build-running",
        "build-healthy",
        "check-queued",
        "check-claimed",
        "check-healthy",
        "execution-healthy",
    ]
    assert run.output("build") == ["compiling", "done"]


def test_the_events_of_a_step_end_with_its_status_and_each_has_a_mirror_line(worker: Worker):
    run = booted_run(node("build"), node("check", after=["build"]))
    worker.claim()
    worker.fail("build")

    last = {event["source"]: event["status"] for event in run.events()}
    assert last == {"execution": "failed", **run.statuses}
    told = [(event["source"], event["text"]) for event in run.events()]
    assert told == [(line["source"], line["text"]) for line in run.lines("")]


def test_event_ids_are_unique_in_a_run(worker: Worker):
    run = booted_run(node("build", retries=2, idempotent=True))
    for _ in range(3):
        worker.claim()
        worker.report("build", "image-pull")
        worker.report("build", "image-pull")
        worker.report("build", "running")
        worker.report("build", "running")
        worker.fail("build")
        let_retries_be_due()

    ids = run.event_ids()
    assert len(ids) == len(set(ids))
    assert {"build-image-pull", "build-image-pull.2", "build-image-pull-3.2"} <= set(ids)
    assert ids.count("build-running") == 1


def test_a_failed_step_skips_what_needs_it_with_the_whole_chain(worker: Worker):
    """Invariant 13: still waiting although the dependency failed."""
    run = booted_run(node("db"), node("api", after=["db"]), node("e2e", after=["api"]))
    worker.claim()
    worker.fail("db", exit_code=3)

    assert run.statuses == {"db": "failed", "api": "skipped", "e2e": "skipped"}
    assert run.reasons == {
        "db": "exit_nonzero",
        "api": "dependency_failed",
        "e2e": "dependency_skipped",
    }
    assert run.step("e2e").cause == [
        {"stepId": "api", "reason": "dependency_failed"},
        {"stepId": "db", "reason": "exit_nonzero", "exitCode": 3},
    ]
    assert (run.status, run.row.reason) == ("Failed", "step_failed")
    assert run.row.reason_detail == "db: exit_nonzero (exit code 3)"


def test_failure_handlers_run_and_the_run_stays_failed(worker: Worker):
    run = booted_run(
        node("deploy"), node("rollback", on_failure=["deploy"]), node("smoke", after=["deploy"])
    )
    worker.claim()
    worker.fail("deploy")

    assert run.row.failing
    assert worker.claim() == ["rollback"]
    worker.end("rollback")
    assert run.status == "Failed"
    assert run.statuses == {"deploy": "failed", "rollback": "healthy", "smoke": "skipped"}


def test_a_failure_that_may_be_continued_leaves_the_run_healthy(worker: Worker):
    run = booted_run(node("lint", continueOnFailure=True), node("build", after=["lint"]))
    worker.claim()
    worker.fail("lint")
    worker.claim()
    worker.end("build")

    assert run.status == "Healthy"
    assert "lint-continued" in run.event_ids()


def test_a_failed_attempt_is_retried_after_a_pause(worker: Worker):
    run = booted_run(node("flaky", retries=1))
    worker.claim()
    worker.fail("flaky")

    assert run.statuses == {"flaky": "queued"}
    assert worker.claim() == [], "the pause is not over"
    let_retries_be_due()
    assert worker.claim() == ["flaky"]
    assert worker.jobs["flaky"]["attempt"] == 2
    worker.end("flaky")
    assert run.status == "Healthy"
    assert run.step("flaky").retries_used == 1


def test_a_step_counts_as_failed_only_after_its_last_attempt(worker: Worker):
    run = booted_run(node("flaky", retries=1), node("fix", on_failure=["flaky"]))
    worker.claim()
    worker.fail("flaky")
    assert run.statuses == {"flaky": "queued", "fix": "pending"}
    assert not run.row.failing

    let_retries_be_due()
    worker.claim()
    worker.fail("flaky")
    assert run.statuses == {"flaky": "failed", "fix": "queued"}


def test_a_run_keeps_to_its_limit_of_parallel_steps(worker: Worker, settings):
    settings.RUNNER_MAX_PARALLEL_STEPS = 2
    booted_run(*[node(f"n{number}") for number in range(5)])

    assert worker.claim() == ["n0", "n1"]
    worker.end("n0")
    assert worker.claim() == ["n2"]


def test_log_nodes_write_their_line_and_need_no_supervisor():
    run = booted_run(
        node("hello", kind="log", variant="warn", message="{{suite}} {{env.REGION}} {{total}}"),
        node(
            "later", kind="log", variant="info", message="{{healthy}} of {{total}}", after=["hello"]
        ),
        with_profile=profile(env={"REGION": "eu"}),
    )
    assert run.status == "Healthy"
    assert [(line["level"], line["text"]) for line in run.lines("user")] == [
        ("warn", "Demo eu 2"),
        ("info", "1 of 2"),
    ]


def test_services_are_stopped_after_the_verdict_and_before_the_end(worker: Worker):
    """Invariant 11: their output is read to its end before the final status is stored."""
    run = booted_run(node("db", kind="service"), node("check", after=["db"]))
    worker.claim()
    worker.report("db", "running")
    worker.report("db", "healthy")
    worker.claim()
    worker.end("check")

    assert (run.status, run.row.verdict) == ("Booting", "Healthy")
    asked = worker.renew("db")[0]
    assert asked.cancel_reason == "teardown"
    worker.log("db", "bye")
    worker.end("db", "canceled", final_seq=1)
    assert run.status == "Healthy"
    assert run.statuses == {"db": "healthy", "check": "healthy"}
    assert run.output("db") == ["bye"]


def test_a_service_that_exits_while_the_run_boots_fails_it(worker: Worker):
    run = booted_run(node("db", kind="service"), node("check", after=["db"]))
    worker.claim()
    worker.report("db", "healthy")
    worker.claim()
    worker.end("db", "succeeded")

    assert run.reasons["db"] == "service_exited"
    assert run.statuses == {"db": "failed", "check": "running"}
    worker.end("check")
    assert run.status == "Failed"


def test_a_service_that_ends_before_it_is_ready_failed(worker: Worker):
    """Invariant 1: a step healthy whose container did not answer its probe."""
    run = booted_run(node("db", kind="service"))
    worker.claim()
    worker.end("db", "succeeded")
    assert run.reasons == {"db": "service_exited"}


def test_only_services_report_healthy(worker: Worker):
    """Invariant 1."""
    run = booted_run(node("build"))
    worker.claim()
    refusal = worker.report("build", "healthy")
    assert isinstance(refusal, InvalidInput)
    assert run.statuses == {"build": "running"}


def test_the_time_of_a_service_that_does_not_stop_is_bounded(worker: Worker):
    """Invariant 5: every teardown has a deadline."""
    run = booted_run(node("db", kind="service"), node("check", after=["db"]))
    worker.claim()
    worker.report("db", "healthy")
    worker.claim()
    worker.end("check")
    deadline_is_over(run)

    sweep()

    assert run.status == "Healthy"
    assert isinstance(worker.end("db", "canceled"), api.StaleAttempt)


def test_env_secrets_and_facts_are_in_the_claimed_spec(worker: Worker, monkeypatch):
    monkeypatch.setenv("PARTITA_SECRET_PSP_TOKEN", "s3cr3t")
    run = booted_run(
        node("api", env={"LOG": "debug"}, ports=[80]),
        with_profile=profile(
            file_name="ci.yaml",
            env={"LOG": "info", "REGION": "eu"},
            secret_refs=(secret("TOKEN", ref="psp-token"),),
        ),
        files={"tasks/run.sh": b"#!/bin/sh\n"},
    )
    worker.claim()

    spec = worker.jobs["api"]
    assert spec["env"]["LOG"] == "debug"
    assert (spec["env"]["REGION"], spec["env"]["TOKEN"]) == ("eu", "s3cr3t")
    assert spec["env"]["PARTITA_EXECUTION_ID"] == run.id
    assert spec["secretKeys"] == ["TOKEN"]
    assert (spec["stepIndex"], spec["totalSteps"], spec["profile"]) == (1, 1, "ci.yaml")
    assert spec["node"]["ports"] == [80]
    content = api.source_content(worker.supervisor, job_of(spec))
    assert spec["content"] == {
        "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
        "size": len(content),
    }
    assert "s3cr3t" not in str(list(Snapshot.objects.values_list("document", flat=True)))


def test_a_secret_that_does_not_resolve_fails_the_run_naming_key_and_provider():
    """Invariant 19: nothing of a secret but its name."""
    refs = (secret("PSP_TOKEN", provider="vault", ref="psp#token"),)
    run = booted_run(node("api"), with_profile=profile(secret_refs=refs))

    assert (run.status, run.row.reason, run.row.failing) == ("Failed", "secret_unresolved", True)
    assert "PSP_TOKEN" in run.row.reason_detail
    assert "vault" in run.row.reason_detail
    assert run.reasons == {"api": "run_failed"}
    assert run.event_ids() == ["execution-queued", "api-skipped", "execution-failed"]
