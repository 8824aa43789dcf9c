"""Who may report what: attempts, incarnations, log positions, repetitions."""

from __future__ import annotations

import pytest

from apps.executions import api
from apps.executions.domain.agent_reports import Lease
from apps.executions.services.run_aggregate import load_runs
from apps.executions.services.sweep import sweep
from kernel.agent_protocol import ArtifactUpload, Completion, Job, StateReport, job_of
from kernel.errors import InvalidInput
from tests.apps.executions.runs import (
    Run,
    Worker,
    booted_run,
    let_leases_lapse,
    let_retries_be_due,
    node,
)

pytestmark = pytest.mark.store


def refused(answers) -> list[type]:
    return [type(answer) for answer in answers]


def everything(worker: Worker, step: str) -> list[object]:
    """Each report there is, about one job, at once."""
    job = worker.jobs[step]
    report = StateReport(job=job_of(job), state="running")
    answer = api.record_reports(
        worker.supervisor,
        states=[report],
        chunks=[worker.chunk(step, "late")],
        completions=[worker.completion(step)],
    )
    return [*answer.states, *answer.chunks, *answer.completions, *worker.renew(step)]


def test_reports_of_an_earlier_attempt_have_no_effect(worker: Worker):
    """Invariant 7: a report of a stale attempt that changes state, logs or artifacts."""
    run = booted_run(node("flaky", retries=1))
    worker.claim()
    first = dict(worker.jobs)
    worker.fail("flaky")
    let_retries_be_due()
    worker.claim()
    before = _told(run)

    worker.jobs = first
    assert refused(everything(worker, "flaky")) == [api.StaleAttempt] * 4
    with pytest.raises(api.StaleAttempt):
        api.source_content(worker.supervisor, job_of(first["flaky"]))
    with pytest.raises(api.StaleAttempt):
        api.store_artifact(worker.supervisor, job_of(first["flaky"]), upload(b"x"))
    assert _told(run) == before


def _told(run: Run) -> tuple[object, ...]:
    """What a report could change: the streams, the run, and how long the step is held."""
    lease = run.step("flaky").lease_expires_at
    return run.event_ids(), run.lines("", "output"), run.row.updated_at, lease


def upload(body: bytes, **facts: str) -> ArtifactUpload:
    fields = {
        "path": "out.txt",
        "name": "",
        "format": "raw",
        "on": "success",
        "media_type": "text/plain",
    }
    return ArtifactUpload(**{**fields, **facts}, body=body)


def test_another_agent_and_an_earlier_incarnation_are_refused(worker: Worker):
    """Invariant 7."""
    booted_run(node("build"))
    worker.claim()
    stranger = Worker("runner-2")
    stranger.jobs = worker.jobs
    assert refused(everything(stranger, "build")) == [api.StaleAttempt] * 4

    successor = worker.restarted()
    successor.adopt(worker.jobs["build"])
    assert refused(everything(worker, "build")) == [api.StaleAttempt] * 4


def test_one_refused_report_does_not_touch_the_others(worker: Worker):
    run = booted_run(node("a"), node("b"))
    worker.claim()
    unknown = Completion(job=Job(job_id="job_nobody", attempt=1))
    answer = api.record_reports(
        worker.supervisor,
        completions=[unknown, worker.completion("a"), worker.completion("b", "exploded")],
    )
    assert refused(answer.completions) == [api.JobNotFound, api.Recorded, InvalidInput]
    assert run.statuses == {"a": "healthy", "b": "running"}


def test_an_identical_completion_again_is_recorded_once(worker: Worker):
    run = booted_run(node("a"), node("b"))
    worker.claim()
    worker.fail("a")
    events = run.event_ids()

    assert isinstance(worker.fail("a"), api.Recorded)
    assert isinstance(worker.end("a"), api.StaleAttempt), "not what it said before"
    assert run.event_ids() == events


def test_lines_stored_before_are_ignored_and_holes_refused(worker: Worker):
    """Invariant 11."""
    run = booted_run(node("build"))
    worker.claim()
    assert worker.log("build", "one", "two").next_seq == 2
    assert worker.log("build", "two", "three", seq=1).next_seq == 3
    gap = worker.log("build", "five", seq=4)
    assert isinstance(gap, api.LogGap)
    assert gap.members == {"nextSeq": 3}
    assert run.output("build") == ["one", "two", "three"]


def test_nothing_ends_with_missing_lines(worker: Worker):
    """Invariant 11: a `complete` accepted with lines missing."""
    run = booted_run(node("build"))
    worker.claim()
    worker.log("build", "one")
    assert isinstance(worker.end("build", final_seq=2), api.LogGap)
    assert run.statuses == {"build": "running"}

    worker.log("build", "two", seq=1)
    assert isinstance(worker.end("build", final_seq=2), api.Recorded)


def test_lines_and_their_completion_may_come_in_one_call(worker: Worker):
    run = booted_run(node("build"))
    worker.claim()
    answer = api.record_reports(
        worker.supervisor,
        chunks=[worker.chunk("build", "one", "two")],
        completions=[worker.completion("build", final_seq=2)],
    )
    assert [getattr(recorded, "next_seq", recorded) for recorded in answer.chunks] == [2]
    assert run.status == "Healthy"


def test_steps_are_handed_out_once(worker: Worker):
    """Invariant 6: one attempt executed twice."""
    booted_run(node("a"), node("b"))
    other = Worker("runner-2")
    assert worker.claim() == ["a", "b"]
    assert other.claim() == []


def test_the_steps_of_a_run_go_to_the_supervisor_that_took_the_first(worker: Worker):
    booted_run(node("a"), node("b", after=["a"]))
    other = Worker("runner-2")
    worker.claim()
    worker.end("a")
    assert other.claim() == []
    assert worker.claim() == ["b"]


def test_claims_keep_to_backends_kinds_and_capabilities(worker: Worker):
    booted_run(node("unit", kind="test"))
    assert Worker("elsewhere", backends=("other",)).claim() == []
    assert Worker("services-only", capabilities=("service",)).claim() == []
    remote = api.SupervisorSession(
        agent_id="remote", incarnation="1", kinds=("remote-agent",), backends=("local-docker",)
    )
    assert api.record_reports(remote, claims=1).claimed == ()
    assert Worker("tester", capabilities=("test",)).claim() == ["unit"]


def test_leases_that_are_renewed_hold(worker: Worker):
    run = booted_run(node("a"))
    worker.claim()
    lease = worker.renew("a")[0]
    assert (lease.status, lease.lease_ms, lease.cancel_reason) == ("running", 30_000, "")
    sweep()
    assert run.statuses == {"a": "running"}


def test_a_lost_test_is_failed_not_run_again(worker: Worker):
    """Invariant 9: a non-idempotent test run again after a lost worker."""
    run = booted_run(node("unit", kind="test", retries=3))
    worker.claim()
    worker.report("unit", "running")
    let_leases_lapse()
    sweep()
    assert (run.status, run.reasons) == ("Failed", {"unit": "agent_lost"})


@pytest.mark.parametrize("facts", [{"kind": "service"}, {"kind": "task", "idempotent": True}])
def test_services_and_idempotent_steps_are_queued_again_twice_at_most(worker: Worker, facts):
    run = booted_run(node("step", **facts))
    for _ in range(3):
        worker.claim()
        worker.report("step", "running")
        let_leases_lapse()
        sweep()
    assert run.reasons == {"step": "agent_lost"}
    assert run.event_ids().count("step-requeued-2") == 1
    assert "step-requeued-3" in run.event_ids()


def test_a_healthy_service_that_was_lost_starts_again(worker: Worker):
    run = booted_run(node("db", kind="service"), node("check", after=["db"]))
    worker.claim()
    worker.report("db", "healthy")
    let_leases_lapse()
    sweep()

    assert run.statuses == {"db": "queued", "check": "queued"}
    assert worker.claim() == ["db"], "its dependent waits until it is healthy again"
    worker.report("db", "healthy")
    assert worker.claim() == ["check"]


def test_a_renewal_after_the_sweep_took_the_lease_is_stale(worker: Worker):
    booted_run(node("step", idempotent=True))
    worker.claim()
    let_leases_lapse()
    sweep()
    assert refused(worker.renew("step")) == [api.StaleAttempt]


def test_a_lease_that_is_renewed_while_it_is_given_up_is_kept(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
):
    """Invariant 6: nobody else gets a step whose supervisor has just renewed its lease."""
    run = booted_run(node("step", idempotent=True))
    worker.claim()
    let_leases_lapse()

    def renew_first(*runs, **steps):
        assert refused(worker.renew("step")) == [Lease]
        return load_runs(*runs, **steps)

    monkeypatch.setattr("apps.executions.services.leases.load_runs", renew_first)
    sweep()

    assert run.statuses == {"step": "running"}
    assert refused(worker.renew("step")) == [Lease]


def test_what_a_restarted_supervisor_still_has_goes_on_as_the_same_attempt(worker: Worker):
    run = booted_run(node("build"))
    worker.claim()
    worker.report("build", "running")
    worker.log("build", "one", "two", position=5)

    successor = worker.restarted()
    adopted = successor.adopt(worker.jobs["build"])

    [kept] = adopted.keep
    assert (kept.job.attempt, kept.next_seq, kept.position) == (1, 2, 5)
    assert kept.spec["node"]["id"] == "build"
    successor.jobs = worker.jobs
    successor.log("build", "three", seq=2)
    successor.end("build", final_seq=3)
    assert run.output("build") == ["one", "two", "three"]
    assert (run.status, run.step("build").attempt) == ("Healthy", 1)


def test_a_restart_touches_no_step_that_has_ended(worker: Worker):
    """Invariant 39: nobody starts it again."""
    run = booted_run(node("done"), node("build"))
    worker.claim()
    worker.end("done")
    worker.report("build", "running")
    before = run.step("done")

    adopted = worker.restarted().adopt(worker.jobs["build"])

    assert [kept.spec["node"]["id"] for kept in adopted.keep] == ["build"]
    assert run.statuses == {"done": "healthy", "build": "running"}
    after = run.step("done")
    assert (
        (after.attempt, after.job_state) == (before.attempt, before.job_state) == (1, "succeeded")
    )


def test_what_a_restarted_supervisor_no_longer_has_is_lost_at_once(worker: Worker):
    """Invariant 9."""
    run = booted_run(node("unit", kind="test"), node("again", idempotent=True), node("never"))
    worker.claim()
    worker.report("unit", "running")
    worker.report("again", "running")

    stale = {"jobId": "job_unknown", "attempt": 1}
    adopted = worker.restarted().adopt(stale)

    assert (adopted.keep, adopted.drop) == ((), ("job_unknown",))
    assert run.reasons["unit"] == "agent_lost"
    assert run.statuses == {"unit": "failed", "again": "queued", "never": "queued"}
    assert (run.step("again").requeues, run.step("never").requeues) == (1, 0)


def test_an_attempt_without_a_container_goes_back_whatever_the_node(worker: Worker):
    run = booted_run(node("unit", kind="test"))
    worker.claim()
    successor = worker.restarted()
    successor.adopt()
    assert run.statuses == {"unit": "queued"}
    assert run.step("unit").requeues == 0
    assert successor.claim() == ["unit"]
    assert successor.jobs["unit"]["attempt"] == 2


def test_jobs_of_a_removed_agent_are_lost(worker: Worker):
    run = booted_run(node("unit", kind="test"))
    worker.claim()
    worker.report("unit", "running")
    api.expire_jobs_of(worker.agent_id)
    assert run.reasons == {"unit": "agent_lost"}


def test_a_job_given_up_by_a_draining_supervisor_counts_as_lost(worker: Worker):
    """Invariant 3: a run healthy although a step never ended as expected."""
    run = booted_run(node("unit", kind="test"))
    worker.claim()
    worker.report("unit", "running")
    worker.end("unit", "canceled")
    assert run.reasons == {"unit": "agent_lost"}
    assert run.status == "Failed"


def test_a_job_given_back_before_its_container_started_is_queued_again(worker: Worker):
    run = booted_run(node("unit", kind="test"))
    worker.claim()
    worker.end("unit", "canceled")
    assert run.statuses == {"unit": "queued"}
    assert worker.claim() == ["unit"]
