"""What keeps the unit of a step from its start is part of the step, but only while it waits."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from apps.executions import api
from apps.executions.models import Step
from apps.executions.selectors.probes import ProbesTaker
from apps.executions.terminal_view import print_run
from kernel.agent_protocol import StateReport, job_of
from tests.apps.executions.runs import Run, Worker, booted_run, let_retries_be_due, node

SHORT = "the namespace's quota is used up: exceeded quota: team, used: pods=3, limited: pods=3"


def wait(worker: Worker, step: str, sentence: str = SHORT) -> None:
    report = StateReport(job=job_of(worker.jobs[step]), state="waiting", message=sentence)
    (result,) = api.record_reports(worker.supervisor, states=[report]).states
    assert isinstance(result, api.Recorded), result


def step_of(run: Run, step: str = "build") -> dict[str, Any]:
    return next(dict(one) for one in api.run_detail(run.id)["steps"] if one["id"] == step)


def streamed(run: Run) -> list[Any]:
    return list(json.loads(ProbesTaker(run.id)())["steps"])


def waiting_events(run: Run) -> list[Any]:
    events = api.run_detail(run.id)["events"]
    return [each for each in events if str(each["id"]).startswith("build-waiting")]


@pytest.mark.store
def test_a_quota_that_is_short_is_shown_until_the_unit_runs(worker: Worker) -> None:
    run = booted_run(node("build"))
    worker.claim()
    wait(worker, "build")

    assert step_of(run)["waitsFor"] == SHORT
    assert streamed(run) == [{"id": "build", "attempt": 1, "waitsFor": SHORT}]
    assert [(each["text"], each["level"]) for each in waiting_events(run)] == [(SHORT, "warn")]

    worker.report("build", "running")
    assert "waitsFor" not in step_of(run)
    assert streamed(run) == []
    worker.end("build")
    assert step_of(run)["status"] == "healthy"


def test_run_show_says_it_in_the_row_of_the_step(worker: Worker) -> None:
    run = booted_run(node("build"))
    worker.claim()
    wait(worker, "build")
    screen = io.StringIO()

    print_run(api.run_detail(run.id), Console(file=screen, width=200))

    assert f"running  00:00  {SHORT}" in screen.getvalue()


def test_an_empty_sentence_ends_the_wait_before_the_unit_runs(worker: Worker) -> None:
    run = booted_run(node("build"))
    worker.claim()
    wait(worker, "build")
    wait(worker, "build", "")

    assert "waitsFor" not in step_of(run)
    assert len(waiting_events(run)) == 1


def test_the_same_sentence_again_is_no_further_event(worker: Worker) -> None:
    run = booted_run(node("build"))
    worker.claim()
    wait(worker, "build")
    wait(worker, "build")
    wait(worker, "build", "no node takes the step: 0/3 nodes are available")

    assert [each["id"] for each in waiting_events(run)] == ["build-waiting", "build-waiting.2"]


def test_figures_that_change_without_end_are_a_few_events_and_the_latest_is_shown(
    worker: Worker,
) -> None:
    run = booted_run(node("build"))
    worker.claim()
    for used in range(30):
        wait(worker, "build", f"used: pods={used}")

    assert len(waiting_events(run)) == 20
    assert step_of(run)["waitsFor"] == "used: pods=29"


@pytest.mark.store
def test_a_sentence_without_end_is_cut(worker: Worker) -> None:
    run = booted_run(node("build"))
    worker.claim()
    wait(worker, "build", "x" * 60_000)

    assert step_of(run)["waitsFor"] == "x" * 1000


def test_a_report_that_comes_after_the_start_changes_nothing(worker: Worker) -> None:
    run = booted_run(node("build"))
    worker.claim()
    worker.report("build", "running")
    wait(worker, "build")

    assert "waitsFor" not in step_of(run)
    assert waiting_events(run) == []


def test_another_attempt_begins_without_it(worker: Worker) -> None:
    run = booted_run(node("build", retries=1))
    worker.claim()
    wait(worker, "build")
    worker.fail("build")
    let_retries_be_due()
    worker.claim()

    assert "waitsFor" not in step_of(run)


def test_an_older_control_plane_that_does_not_clear_it_hides_nothing_of_a_running_step(
    worker: Worker,
) -> None:
    run = booted_run(node("build"))
    worker.claim()
    worker.report("build", "running")
    Step.objects.filter(step_id="build").update(waits_for=SHORT)

    assert "waitsFor" not in step_of(run)
    assert streamed(run) == []
