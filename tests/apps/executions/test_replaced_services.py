"""A service that starts anew: what had run against it runs again, or the run fails at once."""

from __future__ import annotations

import re
from typing import Any

import pytest

from apps.executions import api
from tests.apps.executions.runs import Run, Worker, booted_run, let_retries_be_due, node

pytestmark = pytest.mark.store


def shop(store: dict[str, Any] | None = None, **migrate: Any) -> Run:
    """A store, what is done to it once, what serves from it, a test, and a handler of failures."""
    return booted_run(
        node("store", kind="service", **(store or {})),
        node("migrate", after=["store"], **{"idempotent": True, **migrate}),
        node("rollback", on_failure=["migrate"], idempotent=True),
        node("api", kind="service", after=["migrate"]),
        node("check", kind="test", after=["api"], idempotent=True),
    )


def until_checking(worker: Worker) -> None:
    """Every step but the last is healthy, and that one runs."""
    for step in ("store", "migrate", "api", "check"):
        assert worker.claim() == [step]
        worker.report(step, "running")
        if step == "migrate":
            worker.end(step)
        elif step != "check":
            worker.report(step, "healthy")


def lose(worker: Worker, step: str) -> None:
    """Its supervisor gives up the container of this step and holds the others."""
    worker.end(step, "canceled")


def test_what_ran_against_a_lost_service_runs_again(worker: Worker):
    run = shop()
    until_checking(worker)
    lose(worker, "store")

    assert run.statuses == {
        "store": "queued",
        "migrate": "pending",
        "rollback": "pending",
        "api": "pending",
        "check": "pending",
    }
    assert [type(answer) for answer in worker.renew("api", "check")] == [api.StaleAttempt] * 2
    until_checking(worker)
    worker.end("check")
    assert run.statuses["rollback"] == "skipped"
    for service in ("store", "api"):
        worker.end(service, "canceled")
    assert run.status == "Healthy"
    assert {step: run.step(step).attempt for step in run.statuses} == {
        "store": 2,
        "migrate": 2,
        "rollback": 0,
        "api": 2,
        "check": 2,
    }
    ids = run.event_ids()
    assert len(ids) == len(set(ids))
    assert {"migrate-reset", "rollback-reset", "rollback-skipped.2", "api-claimed-2"} <= set(ids)


def test_a_run_fails_at_once_where_that_must_not_run_twice(worker: Worker):
    """Invariant 9."""
    run = shop(idempotent=False)
    until_checking(worker)
    lose(worker, "store")
    for held in ("api", "check"):
        worker.end(held, "canceled")

    row = run.row
    assert (row.status, row.reason) == ("Failed", "dependency_replaced")
    sentence = (
        r"store was replaced at \d{4}-\d\d-\d\dT[\d:.]+Z \(the supervisor gave up\) after "
        r"migrate, api, check had run against it, and migrate is not idempotent"
    )
    assert re.fullmatch(sentence, row.reason_detail), row.reason_detail
    assert run.step("migrate").attempt == 1
    assert worker.claim() == []


def test_what_had_not_started_waits_and_is_left_alone(worker: Worker):
    run = shop(idempotent=False)
    worker.claim()
    worker.report("store", "healthy")
    lose(worker, "store")
    assert (run.statuses["store"], run.statuses["migrate"]) == ("queued", "queued")
    assert worker.claim() == ["store"]
    worker.report("store", "healthy")
    assert worker.claim() == ["migrate"]
    assert run.step("migrate").attempt == 1


def test_a_service_that_exits_is_retried_with_what_ran_against_it(worker: Worker):
    run = booted_run(
        node("db", kind="service", retries=1), node("load", after=["db"], idempotent=True)
    )
    worker.claim()
    worker.report("db", "healthy")
    worker.claim()
    worker.end("load")
    run_again = booted_run(
        node("db", kind="service", retries=1),
        node("load", after=["db"], idempotent=True),
        node("wait", after=["load"], idempotent=True),
    )
    worker.claim()
    worker.report("db", "healthy")
    worker.claim()
    worker.end("load")
    worker.claim()
    worker.fail("db", reason="service_exited", exit_code=3)
    assert run.status == "Booting"
    assert run_again.statuses == {"db": "queued", "load": "pending", "wait": "pending"}
    let_retries_be_due()
    assert worker.claim() == ["db"]
    worker.report("db", "healthy")
    worker.fail("db", reason="service_exited", exit_code=3)
    assert run_again.reasons["db"] == "service_exited"
    assert run_again.row.reason_detail.startswith("db: service_exited")


def test_the_verdict_names_what_was_lost_first(worker: Worker):
    run = shop()
    until_checking(worker)
    lose(worker, "store")
    for step in ("store", "migrate"):
        worker.claim()
        worker.report(step, "running")
        worker.report(step, "healthy") if step == "store" else worker.end(step)
    worker.claim()
    worker.fail("api", reason="not_ready", exit_code=None)
    worker.end("store", "canceled")

    assert run.row.reason == "step_failed"
    assert run.row.reason_detail == "api: not_ready, after store: agent_lost"


def test_the_verdict_names_the_service_under_a_step_that_failed_first(worker: Worker):
    run = booted_run(node("db", kind="service"), node("load", after=["db"]), node("other"))
    worker.claim()
    worker.report("db", "healthy")
    worker.claim()
    worker.fail("load")
    worker.fail("db", reason="service_exited", exit_code=137)
    worker.end("other")
    assert run.row.reason_detail == (
        "load: exit_nonzero (exit code 1), after db: service_exited (exit code 137)"
    )


def test_a_step_between_two_attempts_ends_when_what_it_needs_has_failed(worker: Worker):
    """Invariant 5: nobody could ever claim it."""
    run = booted_run(node("db", kind="service"), node("load", after=["db"], retries=1))
    worker.claim()
    worker.report("db", "healthy")
    worker.claim()
    worker.fail("db", reason="service_exited", exit_code=1)
    worker.fail("load")
    assert run.statuses == {"db": "failed", "load": "skipped"}
    assert run.status == "Failed"


def test_a_failing_run_does_not_repeat_what_was_done(worker: Worker):
    """Invariant 9: also not where the first failure has decided already."""
    run = booted_run(
        node("store", kind="service"),
        node("seed", after=["store"]),
        node("bad"),
        node("slow", after=["seed"]),
    )
    worker.claim()
    worker.report("store", "healthy")
    worker.claim()
    worker.end("seed")
    worker.claim()
    worker.fail("bad")
    lose(worker, "store")
    worker.end("slow", "canceled")
    assert (run.status, run.row.reason) == ("Failed", "step_failed")
    assert run.row.reason_detail == "bad: exit_nonzero (exit code 1)"
    assert run.step("seed").attempt == 1


def end_together(worker: Worker, **outcomes: str) -> None:
    """One report: these steps ended, in this order."""
    done = [
        worker.completion(step, "failed", reason=reason, exit_code=1, error="exit code 1")
        for step, reason in outcomes.items()
    ]
    api.record_reports(worker.supervisor, completions=done)


@pytest.mark.parametrize("order", [("check", "store"), ("store", "check")])
def test_a_step_that_fails_as_its_service_ends_runs_again(worker: Worker, order: tuple[str, str]):
    """Whichever of the two is reported first: a supervisor that was away reports both at once."""
    run = shop(store={"retries": 1})
    until_checking(worker)
    reasons = {"check": "exit_nonzero", "store": "service_exited"}
    end_together(worker, **{step: reasons[step] for step in order})

    assert run.statuses == {
        "store": "queued",
        "migrate": "pending",
        "rollback": "pending",
        "api": "pending",
        "check": "pending",
    }
    let_retries_be_due()
    until_checking(worker)
    worker.end("check")
    for service in ("store", "api"):
        worker.end(service, "canceled")
    assert run.status == "Healthy"
    assert run.step("check").attempt == 2


def test_a_step_that_fails_as_its_service_ends_fails_the_run_where_not_all_may_run_again(
    worker: Worker,
):
    """Invariant 9."""
    run = shop(store={"retries": 1}, idempotent=False)
    until_checking(worker)
    end_together(worker, check="exit_nonzero", store="service_exited")
    worker.end("api", "canceled")

    assert (run.status, run.row.reason) == ("Failed", "dependency_replaced")
    assert run.reasons["check"] == "exit_nonzero"
    assert run.row.reason_detail.endswith("migrate is not idempotent")


def test_a_verdict_names_no_step_that_was_skipped(worker: Worker):
    """A service is retried just after a step above it has failed, and others are skipped by it."""
    run = booted_run(
        node("store", kind="service", retries=1),
        node("migrate", after=["store"], idempotent=True),
        node("seed", after=["migrate"], idempotent=True),
        node("check", after=["seed"], idempotent=True),
        node("slow", after=["store"], idempotent=True),
    )
    worker.claim()
    worker.report("store", "healthy")
    assert worker.claim() == ["migrate", "slow"]
    for step in ("migrate", "seed"):
        worker.end(step)
        worker.claim()
    worker.fail("check")
    worker.fail("store", reason="service_exited", exit_code=137)
    let_retries_be_due()
    assert worker.claim() == ["store"]
    worker.report("store", "healthy")
    worker.end("store", "canceled")

    assert (run.status, run.statuses["seed"]) == ("Failed", "skipped")
    assert run.row.reason_detail == "check: exit_nonzero (exit code 1), after store: service_exited"


def test_a_verdict_names_a_service_whose_end_is_reported_after_the_step_it_failed(worker: Worker):
    run = booted_run(node("store", kind="service"), node("check", after=["store"]))
    worker.claim()
    worker.report("store", "healthy")
    worker.claim()
    worker.fail("check")
    assert run.row.reason_detail == "check: exit_nonzero (exit code 1)"
    worker.fail("store", reason="service_exited", exit_code=137)

    assert (run.status, run.statuses["store"]) == ("Failed", "healthy")
    assert run.row.reason_detail == "check: exit_nonzero (exit code 1), after store: service_exited"
