"""What the session of a CI job launches and sees: the suites of its rule, in its workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apps.accounts.api import Forbidden, Principal, Role
from apps.executions import api
from apps.executions.domain.runs import (
    Concurrency,
    ExecutionNotFound,
    Idempotency,
    LaunchRequest,
    RunFilter,
)
from apps.executions.selectors.runs import matching_runs
from apps.executions.services.launch import launch_once
from tests.apps.executions.runs import Worker
from tests.support.people import somebody

pytestmark = pytest.mark.store
SUITE = """
load("@partita/runtime", "task")
task.run("build", image = "busybox:1.36", command = ["true"])
"""
JOB = "github: acme/shop@refs/heads/main by workflow CI"


@pytest.fixture(autouse=True)
def _suites(settings, worker: Worker) -> None:
    for name in ("hello", "team-a", "Team-b", "teams", "other"):
        folder = Path(settings.SUITES_DIR) / name
        folder.mkdir(parents=True)
        (folder / "suite.star").write_text(SUITE)
        (folder / "README.md").write_text(f"# {name}\n")


@pytest.fixture
def person() -> Principal:
    return somebody()


@pytest.fixture
def job(person: Principal) -> Principal:
    """The session of a CI job in the workspace of that person."""
    return somebody(
        workspace_id=person.workspace_id,
        role=Role.RUNNER,
        ceiling=Role.RUNNER,
        full_name=JOB,
        email="",
        ci_session_hash="0" * 64,
        suites=("hello", "team-*"),
    )


def launch(principal: Principal, suite: str = "hello", **facts: Any) -> Any:
    return api.launch(principal, LaunchRequest(suite_id=suite, **facts))


def test_a_run_says_which_job_launched_it_and_that_of_a_person_does_not(job, person):
    by_job, by_person = launch(job, author="Ada", trigger="CI"), launch(person)

    assert (by_job["launchedBy"], by_job["author"]) == (JOB, "Ada")
    assert launch(job)["author"] == JOB
    assert "launchedBy" not in by_person
    (found,) = matching_runs(person, RunFilter(words="acme/shop", author="Ada"))
    assert found.run_id == by_job["id"]


def test_it_launches_the_suites_of_its_rule_alone(job):
    assert launch(job, "team-a")["suiteId"] == "team-a"
    with pytest.raises(Forbidden, match="does not name this suite") as refused:
        launch(job, "other")
    assert refused.value.problem_code == "suite_refused"


def test_it_sees_runs_of_its_suites_in_its_workspace_alone(job, person):
    """Invariant 16."""
    seen, hidden, foreign = launch(person), launch(person, "other"), launch(somebody())

    assert [run.run_id for run in matching_runs(job, RunFilter())] == [seen["id"]]
    assert api.get_execution(job, seen["id"]).run_id == seen["id"]
    for run in (hidden, foreign):
        with pytest.raises(ExecutionNotFound):
            api.get_execution(job, run["id"])


@pytest.mark.parametrize(
    ("suites", "seen"),
    [
        (("team-*",), {"team-a"}),
        (("Team-*",), {"Team-b"}),
        (("HELLO", "team.*"), set()),
        (("team*", "hello"), {"team-a", "teams", "hello"}),
        (("*",), {"team-a", "Team-b", "teams", "hello"}),
    ],
)
def test_it_sees_what_it_may_launch_to_the_letter(person, suites, seen):
    """Invariant 16."""
    for suite in ("team-a", "Team-b", "teams", "hello"):
        launch(person, suite)
    job = somebody(workspace_id=person.workspace_id, ci_session_hash="0" * 64, suites=suites)

    assert {run.suite_id for run in matching_runs(job, RunFilter())} == seen


def test_a_rule_without_suites_left_sees_nothing(job, person):
    launch(person)
    nobody = somebody(workspace_id=person.workspace_id, ci_session_hash="0" * 64, suites=())

    assert not matching_runs(nobody, RunFilter()).exists()


def test_a_viewer_launches_nothing(job, person):
    viewer = job.with_role(Role.VIEWER)

    with pytest.raises(Forbidden, match="needs the role runner"):
        launch(viewer)


@pytest.mark.parametrize(("suite", "status"), [("other", "Queued"), ("hello", "Canceled")])
def test_it_cancels_by_a_group_only_runs_that_it_reaches(job, person, suite, status):
    group = Concurrency(group="nightly", cancel_in_progress=True)
    before = launch(person, suite, concurrency=group)

    launch(job, concurrency=group)

    assert api.get_execution(person, before["id"]).status == status


def test_a_second_call_of_a_job_attaches_to_its_run(job):
    """Invariant 32."""

    def key() -> Idempotency:
        return Idempotency(principal=job.key, method="POST", path="/", key="run-1-1", body=b"{}")

    first = launch_once(job, LaunchRequest(suite_id="hello"), idempotency=key())
    again = launch_once(job, LaunchRequest(suite_id="hello"), idempotency=key())

    assert (again.replayed, again.summary["id"]) == (True, first.summary["id"])
