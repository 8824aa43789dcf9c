"""Mock nodes of runs: healthy when their surfaces answer, and never before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.executions.models import Execution, Step
from apps.executions.services import mock_nodes
from apps.executions.services.cancellations import cancel
from apps.executions.services.mock_nodes import check_mocks, check_waiting_mocks
from apps.executions.services.sweep import sweep
from kernel import clock
from tests.apps.executions.mocks import MockPlane
from tests.apps.executions.runs import Run, Worker, booted_run, let_leases_lapse, node

SERVED = {"psp": {"psp": "rest", "bank": "grpc"}}


def mock(id_: str = "psp", **facts: Any) -> dict[str, Any]:
    return node(id_, kind="mock", variant="mock", timeoutMs=30_000, image="", **facts)


def started(*nodes: dict[str, Any], **facts: Any) -> Run:
    return booted_run(mock(), *nodes, **{"mocks": SERVED, **facts})


def of_the_task(run: Run) -> None:
    """As the Celery task that the start of a mock sends."""
    check_mocks(run.pk)


def let_time_pass(run: Run, seconds: float) -> None:
    Step.objects.filter(execution_id=run.pk, kind="mock").update(
        started_at=clock.now() - timedelta(seconds=seconds)
    )


def test_a_mock_is_healthy_when_its_surfaces_answer_and_not_before(
    plane: MockPlane, worker: Worker
):
    """Invariant 1."""
    run = started(node("t", after=["psp"]))
    assert run.statuses == {"psp": "running", "t": "pending"}
    assert worker.claim() == []

    plane.fault = "404 surface_not_found"
    of_the_task(run)
    assert run.statuses == {"psp": "running", "t": "pending"}

    plane.fault = ""
    of_the_task(run)
    assert run.statuses == {"psp": "healthy", "t": "queued"}
    assert plane.asked[-1] == (f"demo@{run.id}", ["bank", "psp"])
    assert run.event_ids()[2:] == ["psp-queued", "psp-claimed", "psp-healthy", "t-queued"]
    assert worker.claim() == ["t"]
    worker.end("t")
    assert run.status == "Healthy"


def test_the_start_of_a_mock_sends_the_task(plane: MockPlane, enqueued: list[tuple[str, ...]]):
    run = started()

    assert ("executions.check_mocks", str(run.pk)) in enqueued


def test_the_sweep_finds_mocks_of_lost_tasks(plane: MockPlane):
    run = started()
    check_waiting_mocks()
    assert run.statuses == {"psp": "running"}, "its task may be under way"

    let_time_pass(run, 4)
    check_waiting_mocks()
    assert run.status == "Healthy"


def test_a_mock_whose_surfaces_do_not_answer_in_time_fails(plane: MockPlane):
    run = started()
    plane.fault = "http://mocks: connection refused"
    let_time_pass(run, 29)
    check_waiting_mocks()
    assert run.statuses == {"psp": "running"}

    let_time_pass(run, 31)
    sweep()
    assert run.status == "Failed"
    assert run.reasons == {"psp": "mock_not_ready"}
    assert run.step("psp").detail == (
        "bank, psp did not answer within 30 s: http://mocks: connection refused"
    )


def test_a_mock_that_nobody_asks_for_fails_too(plane: MockPlane):
    run = started()
    Step.objects.filter(execution_id=run.pk).update(deadline=clock.now())
    plane.fault = "away"
    sweep()

    assert run.reasons == {"psp": "mock_not_ready"}


@pytest.mark.parametrize(
    ("served", "says"),
    [
        ({}, "there is no API surface in api/ and mock/"),
        ({"psp": {}}, "there is no API surface in api/ and mock/"),
        ({"psp": {"empty": ""}}, "API surface empty has no operation"),
    ],
)
def test_a_mock_without_operations_fails_at_once(plane: MockPlane, served, says):
    """Invariant 1."""
    run = started(node("t", after=["psp"]), mocks=served)

    assert run.status == "Failed"
    assert run.reasons == {"psp": "mock_surface_missing", "t": "dependency_failed"}
    assert says in run.step("psp").detail
    assert plane.asked == []


def test_a_waiting_mock_is_canceled_at_once(plane: MockPlane):
    run = started(node("t", after=["psp"]))
    cancel(run.principal, run.id)

    assert run.status == "Canceled"
    assert run.statuses == {"psp": "canceled", "t": "canceled"}
    of_the_task(run)
    assert run.statuses["psp"] == "canceled"


def test_no_supervisor_loses_or_claims_a_mock(plane: MockPlane, worker: Worker):
    run = started()
    assert worker.claim() == []
    let_leases_lapse()
    sweep()

    assert run.statuses == {"psp": "running"}
    assert run.step("psp").agent_id == ""


def test_an_answer_for_an_attempt_that_is_over_changes_nothing(plane: MockPlane, worker: Worker):
    """A service behind it is replaced while the surfaces are asked for."""
    service = node("db", kind="service", retries=1, idempotent=True)
    run = booted_run(service, mock(after=["db"]), mocks=SERVED)
    worker.claim()
    worker.report("db", "healthy")
    assert run.statuses == {"db": "healthy", "psp": "running"}

    plane.before_answer = lambda: worker.fail("db", reason="service_exited")
    of_the_task(run)
    assert run.statuses == {"db": "queued", "psp": "pending"}

    plane.before_answer = lambda: None
    Step.objects.filter(execution_id=run.pk).update(not_before=None)
    worker.claim()
    worker.report("db", "healthy")
    of_the_task(run)
    assert run.statuses == {"db": "healthy", "psp": "healthy"}
    assert run.step("psp").attempt == 2
    assert Execution.objects.get(pk=run.pk).verdict == "Healthy"


def test_mocks_that_do_not_answer_keep_no_other_from_being_asked_for(
    plane: MockPlane, monkeypatch: pytest.MonkeyPatch
):
    """The older ones are asked for first, and a sweep takes its time for mocks."""
    passed = [0.0]

    class Time:
        monotonic = staticmethod(lambda: passed[0])

    monkeypatch.setattr(mock_nodes, "time", Time)
    names = [f"m{nth}" for nth in range(20)]
    run = booted_run(*map(mock, names), mocks={name: {name: "rest"} for name in names})
    let_time_pass(run, 4)

    def ask() -> None:
        passed[0] += 0.5
        plane.fault = "" if plane.asked[-1][1] == ["m19"] else "surface_not_found"

    plane.before_answer = ask
    for _ in range(4):
        check_waiting_mocks()
        assert passed[0] <= 4
        passed[0] = 0

    assert run.statuses["m19"] == "healthy"
