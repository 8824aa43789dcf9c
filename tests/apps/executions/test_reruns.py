"""Runs that ended run again: from their snapshot, whole or in part, as a row of attempts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from apps.accounts.api import Role
from apps.agents import models as agents
from apps.executions import api
from apps.executions.domain.rerun import NothingToRerun, RerunScope
from apps.executions.domain.runs import ExecutionActive, ExecutionNotFound
from apps.executions.domain.states import StatusCode
from apps.executions.models import Execution, Snapshot
from apps.executions.selectors import runs
from apps.executions.selectors.attempts import attempt_documents
from apps.executions.services import storage
from apps.executions.services.admission import dispatch
from apps.executions.services.cancellations import cancel
from apps.executions.services.rerun import RerunRequest, launch_rerun, prepare_rerun
from apps.executions.services.snapshot_suites import SnapshotDiffers
from apps.executions.services.storage import remove_old_runs
from apps.platform_settings.api import BackendUnavailable
from apps.profiles.api import ProfileInvalid, ProfileNotInSuite
from kernel.errors import InvalidInput, PlatformError
from tests.apps.executions.runs import Run, Worker, booted_run, node, profile, queued_run, secret
from tests.apps.executions.test_launching import keyed, write_suite
from tests.support.older_process import stored_by_older
from tests.support.people import somebody
from tests.support.threads import at_once

FAILED = RerunRequest(scope=RerunScope.FAILED)
NODES = (
    node("db", kind="service"),
    node("seed", after=["db"]),
    node("unit", kind="test"),
    node("orders", after=["seed"], kind="test"),
    node("report", after=["orders"]),
    node("dump", on_failure=["orders"]),
)
SUITE = """
load("@partita/runtime", "task", "test")
build = task.run("build", image = "busybox:1.36", command = ["true"], env = {"R": env["REGION"]})
test.run("check", image = "busybox:1.36", command = ["true"], after = [build])
if env["REGION"] == "us":
    task.run("extra", image = "busybox:1.36", command = ["true"])
"""
PROFILES = {
    "ci.yaml": "default: true\nenv: {REGION: eu}\n",
    "us.yaml": "env: {REGION: us}\n",
    "lost.yaml": "secretRefs: [{key: T, provider: cupboard, ref: a}]\n",
}


def finish(worker: Worker, *wrong: str) -> None:
    """Let the steps end until none starts; those named `wrong` fail."""
    while claimed := worker.claim():
        for step in claimed:
            if step in wrong:
                worker.fail(step)
            elif worker.jobs[step]["node"]["kind"] == "service":
                worker.report(step, "healthy")
            else:
                worker.end(step)
    if "db" in worker.jobs:  # the teardown asks it to stop
        worker.end("db", "canceled")
        worker.jobs.pop("db")


def failed_run(worker: Worker, **facts: Any) -> Run:
    run = booted_run(*NODES, **facts)
    finish(worker, "orders")
    assert run.status == "Failed"
    return run


def run_again(run: Run, request: RerunRequest = FAILED, **facts: Any) -> Run:
    launched = launch_rerun(run.principal, run.id, request, **facts)
    pk = Execution.objects.get(run_id=launched.summary["id"]).pk
    return Run(pk, run.principal)


def test_only_what_failed_and_what_it_needs_runs_again(worker: Worker):
    first = failed_run(worker)

    second = run_again(first)
    dispatch()

    assert second.reasons == {"unit": "not_selected"}
    assert second.row.standings[second.step("unit").index - 1] == StatusCode.NOT_SELECTED
    assert "unit-skipped" in second.event_ids()
    finish(worker)
    assert second.status == "Healthy"
    assert second.statuses == {
        "db": "healthy", "seed": "healthy", "unit": "skipped", "orders": "healthy",
        "report": "healthy", "dump": "skipped",
    }  # fmt: skip
    assert second.reasons == {"unit": "not_selected", "dump": "trigger_not_failed"}
    assert first.status == "Failed"  # never changes


def test_a_step_that_fails_again_starts_its_handler(worker: Worker):
    second = run_again(failed_run(worker))
    dispatch()

    finish(worker, "orders")

    assert second.status == "Failed"
    assert second.statuses["dump"] == "healthy"
    assert second.reasons["report"] == "dependency_failed"
    assert second.row.reason == "step_failed"


def test_a_rerun_has_the_snapshot_of_the_first_run_and_its_commit(worker: Worker):
    first = failed_run(
        worker, files={"suite.star": b"x"}, with_profile=profile(file_name="ci.yaml")
    )
    Execution.objects.filter(pk=first.pk).update(commit="abc", branch="main", message="why")

    second = run_again(first)

    row = second.row
    assert row.snapshot_id == first.row.snapshot_id
    assert (row.trigger, row.profile) == ("Rerun", "ci.yaml")
    assert (row.commit, row.branch, row.message) == ("abc", "main", "why")
    assert Snapshot.objects.count() == 1
    dispatch()
    worker.claim()
    assert worker.jobs["db"]["content"]["size"] > 0


def test_the_plan_is_what_the_run_then_does(worker: Worker):
    first = failed_run(worker)

    plan = prepare_rerun(first.principal, first.id, FAILED).plan

    assert Execution.objects.count() == 1
    assert {step["id"]: step["text"] for step in plan["steps"]} == {
        "db": "needed by seed",
        "seed": "needed by orders",
        "orders": "failed",
        "report": "depends on failed orders",
        "dump": "runs if orders fails",
    }
    assert [step["id"] for step in plan["notSelected"]] == ["unit"]
    assert plan["sentence"] == (
        "5 of 6 steps run again: 2 that failed or did not run, 2 needed by them, "
        "1 only after a failure."
    )
    second = run_again(first)
    skipped = [step for step, reason in second.reasons.items() if reason == "not_selected"]
    assert skipped == [step["id"] for step in plan["notSelected"]]


def test_one_step_runs_again_with_what_it_needs(worker: Worker):
    first = failed_run(worker)

    second = run_again(first, RerunRequest(scope=RerunScope.STEP, step="seed"))

    selected = set(second.statuses) - set(second.reasons)
    assert selected == {"db", "seed"}


def test_all_steps_run_again(worker: Worker):
    second = run_again(failed_run(worker), RerunRequest())

    assert second.reasons == {}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (RerunRequest(scope=RerunScope.STEP, step="sed"), "did you mean seed?"),
        (RerunRequest(scope=RerunScope.STEP, step="zzzzz"), "known: db, dump, orders"),
        (RerunRequest(scope=RerunScope.STEP), "needs the id or name of a step"),
        (RerunRequest(step="seed"), "send the scope step with it"),
    ],
)
def test_a_step_that_is_not_there_is_refused_with_a_suggestion(
    worker: Worker, request_: RerunRequest, words: str
):
    first = failed_run(worker)

    with pytest.raises(InvalidInput, match=words.replace("?", r"\?")) as refused:
        run_again(first, request_)

    assert refused.value.errors[0].pointer == "/step"


def test_a_run_that_is_not_over_is_not_run_again(worker: Worker):
    run = queued_run(*NODES)
    for _ in range(2):
        with pytest.raises(ExecutionActive):
            run_again(run)
        dispatch()


def test_a_run_without_a_failure_has_nothing_to_rerun(worker: Worker):
    run = booted_run(*NODES)
    finish(worker)
    assert run.status == "Healthy"

    with pytest.raises(NothingToRerun):
        run_again(run)
    assert run_again(run, RerunRequest()).status == "Queued"


def test_a_canceled_run_runs_again(worker: Worker):
    run = queued_run(*NODES)
    cancel(run.principal, run.id)

    plan = prepare_rerun(run.principal, run.id, FAILED).plan

    assert {step["text"] for step in plan["steps"]} == {
        "was canceled", "runs if orders fails",
    }  # fmt: skip


def test_a_run_of_another_workspace_is_unknown(worker: Worker):
    run = failed_run(worker)

    for call in (launch_rerun, prepare_rerun):
        with pytest.raises(ExecutionNotFound):
            call(somebody(), run.id, FAILED)


def test_a_viewer_may_not_even_see_the_plan(worker: Worker):
    run = failed_run(worker)
    viewer = somebody(workspace_id=run.principal.workspace_id, role=Role.VIEWER)

    for call in (launch_rerun, prepare_rerun):
        with pytest.raises(PlatformError) as refused:
            call(viewer, run.id, FAILED)
        assert refused.value.problem_code == "role_required"


def test_an_administrators_rerun_stays_in_the_workspace_of_the_run(worker: Worker):
    run = failed_run(worker)
    admin = somebody(is_admin=True)

    launched = launch_rerun(admin, run.id, FAILED)

    row = Execution.objects.get(run_id=launched.summary["id"])
    assert row.workspace_id == run.row.workspace_id
    assert row.owner_id == admin.user_id


def test_backends_are_checked_as_for_a_launch(worker: Worker):
    run = failed_run(worker)
    agents.Agent.objects.update(runtime_available=False)

    with pytest.raises(BackendUnavailable):
        run_again(run)


def test_a_provider_of_secrets_that_is_gone_is_refused_in_the_words_of_a_launch(worker: Worker):
    run = queued_run(*NODES, with_profile=profile(secret_refs=(secret("T", provider="cupboard"),)))
    cancel(run.principal, run.id)

    with pytest.raises(ProfileInvalid, match=r"secret T: .*cupboard"):
        run_again(run)


def test_a_secret_that_no_longer_resolves_fails_the_rerun(worker: Worker, settings, tmp_path: Path):
    run = queued_run(*NODES, with_profile=profile(secret_refs=(secret("T", ref="nowhere"),)))
    dispatch()
    assert run.row.reason == "secret_unresolved"

    second = run_again(run)
    dispatch()

    assert (second.status, second.row.reason) == ("Failed", "secret_unresolved")


def test_a_repeated_key_gets_the_first_answer(worker: Worker):
    """Invariant 32."""
    run = failed_run(worker)
    first, again = (
        launch_rerun(run.principal, run.id, FAILED, idempotency=keyed(run.principal))
        for _ in range(2)
    )

    assert (first.replayed, again.replayed) == (False, True)
    assert again.summary == first.summary
    assert Execution.objects.count() == 2


# ── another profile ──────────────────────────────────────────────────────────


@pytest.fixture
def launched(settings: Any, worker: Worker) -> Run:
    """A run of a suite in a folder that has failed with ci.yaml."""
    write_suite(settings.SUITES_DIR, "hello", SUITE, PROFILES)
    principal = somebody()
    run_id = api.launch(principal, api.LaunchRequest(suite_id="hello"))["id"]
    dispatch()
    run = Run(Execution.objects.get(run_id=run_id).pk, principal)
    finish(worker, "check")
    assert run.status == "Failed"
    return run


def test_another_profile_is_resolved_against_the_suite_of_the_snapshot(
    launched: Run, worker: Worker, settings: Any
):
    (settings.SUITES_DIR / "hello" / "suite.star").write_text("nonsense(")

    second = run_again(launched, RerunRequest(scope=RerunScope.FAILED, profile="us"))
    dispatch()

    assert second.row.profile == "us.yaml"
    assert set(second.statuses) == {"build", "check", "extra"}
    assert worker.claim() == ["build", "extra"]
    assert worker.jobs["build"]["env"]["R"] == "us"
    assert worker.jobs["build"]["content"]["size"] > 0
    document = api.run_detail(second.id)["suite"]
    assert (document["title"], document["id"]) == (launched.row.suite_title, "hello")


def test_the_own_profile_by_name_is_the_snapshot(launched: Run):
    second = run_again(launched, RerunRequest(profile="ci.yaml"))

    assert second.row.snapshot_id == launched.row.snapshot_id


@pytest.mark.parametrize(
    ("name", "refusal"), [("none.yaml", ProfileNotInSuite), ("lost.yaml", PlatformError)]
)
def test_a_profile_that_cannot_be_used_is_refused(launched: Run, name: str, refusal: Any):
    with pytest.raises(refusal):
        run_again(launched, RerunRequest(profile=name))


def test_a_changed_module_refuses_another_profile_and_says_what_to_do(
    settings: Any, worker: Worker, tmp_path: Path
):
    module = tmp_path / "modules" / "team" / "steps"
    module.mkdir(parents=True)
    settings.MODULES_DIR = tmp_path / "modules"
    text = 'load("@partita/runtime", "task")\ndef work():\n    task.run("a", image = "{}")\n'
    (module / "steps.star").write_text(text.format("busybox:1.36"))
    write_suite(settings.SUITES_DIR, "mod", 'load("@team/steps", "work")\nwork()\n', PROFILES)
    principal = somebody()
    run_id = api.launch(principal, api.LaunchRequest(suite_id="mod"))["id"]
    cancel(principal, run_id)
    request = RerunRequest(profile="us.yaml")
    assert prepare_rerun(principal, run_id, request).plan["profile"] == "us.yaml"

    (module / "steps.star").write_text(text.format("busybox:1.37"))

    with pytest.raises(SnapshotDiffers, match=r"launch the suite with us\.yaml instead"):
        prepare_rerun(principal, run_id, request)
    # with its own profile it needs no module
    assert prepare_rerun(principal, run_id, RerunRequest()).plan["steps"]


# ── attempts ─────────────────────────────────────────────────────────────────


def row_of(run: Run) -> list[tuple[Any, ...]]:
    return [
        (each["number"], each.get("id", each.get("gap"))) for each in attempt_documents(run.row)
    ]


def test_attempts_stand_in_a_row_whichever_of_them_was_run_again(worker: Worker):
    first = failed_run(worker)
    second = run_again(first)
    cancel(second.principal, second.id)
    third = run_again(first)

    row = [(1, first.id), (2, second.id), (3, third.id)]
    assert [row_of(run) for run in (first, second, third)] == [row, row, row]
    statuses = [each["status"] for each in attempt_documents(third.row)]
    assert statuses == ["Failed", "Canceled", "Queued"]
    assert runs.summary(third.row)["rerunOf"] == first.id
    assert (runs.summary(third.row)["attempt"], runs.summary(second.row)["attempt"]) == (3, 2)


def test_deleted_attempts_leave_a_gap_that_is_said(worker: Worker):
    first = failed_run(worker)
    second = run_again(first)
    cancel(second.principal, second.id)
    third = run_again(second)
    for run in (first, second):
        storage.delete(run.principal, run.id)
    remove_old_runs()

    assert row_of(third) == [(1, "deleted"), (3, third.id)]

    cancel(third.principal, third.id)
    fourth = run_again(third, RerunRequest())
    assert row_of(fourth) == [(1, "deleted"), (3, third.id), (4, fourth.id)]
    cancel(fourth.principal, fourth.id)
    storage.delete(fourth.principal, fourth.id)
    remove_old_runs()
    assert row_of(third) == [(1, "deleted"), (3, third.id), (4, "deleted")]


def test_a_run_without_reruns_is_the_only_attempt(worker: Worker, django_assert_num_queries):
    run = queued_run(*NODES)
    row = run.row
    cancel(run.principal, run.id)
    row.refresh_from_db()

    with django_assert_num_queries(0):
        assert [each["number"] for each in attempt_documents(row)] == [1]


@pytest.mark.store
def test_reruns_at_once_have_numbers_of_their_own(worker: Worker):
    run = failed_run(worker)

    at_once([lambda: run_again(run)] * 4)

    numbers = Execution.objects.values_list("attempt", flat=True)
    assert sorted(numbers) == [1, 2, 3, 4, 5]
    assert set(Execution.objects.values_list("last_attempt", flat=True)) == {5}


@pytest.mark.store
@pytest.mark.skipif(connection.vendor == "mongodb", reason="a document store has no columns")
def test_a_run_that_an_older_process_stored_runs_again(worker: Worker):
    template = failed_run(worker).row

    newer = {"first_run_id", "attempt", "last_attempt"}
    key = stored_by_older(template, newer, run_id="run-0123456789ab")

    stored = Execution.objects.get(id=key)
    assert (stored.first_run_id, stored.attempt, stored.last_attempt) == ("", 1, 1)


# ── since the last green run ─────────────────────────────────────────────────


def test_what_differs_from_the_last_healthy_run_is_known_without_any_value(worker: Worker):
    principal = somebody()
    green = booted_run(
        *NODES,
        principal=principal,
        with_profile=profile(file_name="ci.yaml", env={"TOKEN": "swordfish", "OLD": "a"}),
    )
    finish(worker)
    changed = [
        {**each, "image": "busybox:1.37"} if each["id"] == "seed" else each for each in NODES
    ]
    red = booted_run(
        *changed,
        principal=principal,
        with_profile=profile(file_name="us.yaml", env={"TOKEN": "sailfish", "NEW": "b"}),
    )
    finish(worker, "orders")
    booted_run(*NODES, principal=somebody())  # of another workspace
    finish(worker)

    found = api.since_green(principal, red.id)

    assert found["green"]["id"] == green.id
    assert [
        (each["kind"], each["name"], each["change"]) for each in found["differences"]
    ] == [
        ("profile", "", "changed"),
        ("env", "NEW", "added"),
        ("env", "OLD", "removed"),
        ("env", "TOKEN", "changed"),
        ("image", "seed", "changed"),
    ]  # fmt: skip
    assert "fish" not in str(found)
    assert found["sentence"] == (
        f"5 differences since {green.id}, the last Healthy run before this one."
    )
    with pytest.raises(ExecutionNotFound):
        api.since_green(somebody(), red.id)


def test_without_a_healthy_run_before_it_that_is_said(worker: Worker):
    run = failed_run(worker)
    booted_run(*NODES, principal=run.principal)
    finish(worker)

    found = api.since_green(run.principal, run.id)

    assert found["sentence"] == "No run of this suite was Healthy before this one."
    assert "green" not in found


def test_a_backend_that_was_removed_is_refused(worker: Worker, settings: Any, tmp_path: Path):
    run = failed_run(worker)
    Execution.objects.filter(pk=run.pk).update(backend_id="gone")

    with pytest.raises(PlatformError) as refused:
        run_again(run)

    assert refused.value.problem_code == "backend_unknown"
