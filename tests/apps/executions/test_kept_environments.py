"""Environments that stay after the verdict: whether, how long, and what ends them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from apps.accounts.api import Forbidden, Principal, Role
from apps.accounts.models import User, Workspace
from apps.executions import api
from apps.executions.domain.runs import ExecutionActive, ExecutionFinished, ExecutionNotFound
from apps.executions.domain.states import RunReason
from apps.executions.models import Execution
from apps.executions.services import storage
from apps.executions.services.cancellations import cancel
from apps.executions.services.kept_environments import end as end_keeping
from apps.executions.services.kept_environments import end_overdue, tell_owners
from apps.executions.services.kept_environments import extend as extend_keeping
from apps.executions.services.run_aggregate import load_run, save_runs
from apps.executions.services.run_progression import fail_run
from apps.streams.api import unit_of_work
from kernel import clock
from tests.apps.executions.runs import Run, Worker, booted_run, node, profile, queued_run
from tests.support.people import somebody

HALF_AN_HOUR = 1_800_000


def world(**facts: Any) -> Run:
    facts.setdefault("keep_ms", HALF_AN_HOUR)
    return booted_run(node("db", kind="service"), node("seed", after=["db"]), **facts)


def fail_in(worker: Worker, run: Run) -> Run:
    return _end_seed(run, worker, worker.fail)


def end_well_in(worker: Worker, run: Run) -> Run:
    return _end_seed(run, worker, worker.end)


def _end_seed(run: Run, worker: Worker, end: Callable[[str], object]) -> Run:
    """Let `seed` end while `db` is healthy, and leave `db` running if that is asked for."""
    worker.claim()
    worker.report("db", "healthy")
    worker.claim()
    end("seed")
    [lease] = worker.renew("db")
    worker.end("db", "succeeded" if lease.cancel_reason == "detach" else "canceled")
    return run


def is_kept(run: Run) -> bool:
    return api.is_kept(run.id) and not api.releasable_runs([run.id])


def test_after_a_failure_the_services_run_on_and_the_verdict_is_there(worker: Worker):
    run = fail_in(worker, world())

    assert (run.status, run.statuses) == ("Failed", {"db": "healthy", "seed": "failed"})
    assert is_kept(run)
    keep = api.detail(run.principal, run.id)["keep"]
    assert (keep["keepAliveMs"], keep["onlyFailed"]) == (HALF_AN_HOUR, False)
    row = run.row
    assert row.keep_alive_until
    assert row.finished_at
    assert row.keep_alive_until - row.finished_at == timedelta(minutes=30)
    kept, failed = run.events()[-2:]
    assert (kept["id"], failed["id"]) == ("execution-kept", "execution-failed")
    assert kept["text"].startswith("the environment is kept for 30 min, until ")
    assert api.kept_run(run.principal, run.id).agent_id == worker.agent_id


def test_a_run_that_did_not_ask_keeps_nothing(worker: Worker):
    run = fail_in(worker, world(keep_ms=None))
    assert not is_kept(run)
    assert "keep" not in api.detail(run.principal, run.id)
    with pytest.raises(api.NotKept, match="--keep 30m"):
        api.kept_run(run.principal, run.id)


def test_who_asks_for_it_keeps_a_healthy_environment_too(worker: Worker):
    run = end_well_in(worker, world())
    assert (run.status, is_kept(run)) == ("Healthy", True)


def test_a_profile_keeps_the_environment_of_failures_alone(worker: Worker):
    by_profile = {"keep_ms": None, "with_profile": profile(keep_on_failure_ms=60_000)}
    assert not is_kept(end_well_in(worker, world(**by_profile)))
    failed = fail_in(worker, world(**by_profile))
    assert is_kept(failed)
    assert api.detail(failed.principal, failed.id)["keep"]["onlyFailed"]


def test_a_suite_has_a_default_that_its_profiles_change(worker: Worker):
    by_suite = {"keep_ms": None, "keep_on_failure_ms": 60_000}
    assert is_kept(fail_in(worker, world(**by_suite)))
    no = profile(keep_on_failure_ms=0)
    assert not is_kept(fail_in(worker, world(**by_suite, with_profile=no)))


def test_a_launch_may_say_no_to_what_its_profile_says(worker: Worker):
    run = world(keep_ms=0, with_profile=profile(keep_on_failure_ms=60_000))
    assert not is_kept(fail_in(worker, run))


def test_the_specs_of_its_steps_say_that_ended_units_stay(worker: Worker):
    world()
    worker.claim()
    assert worker.jobs["db"]["keepUnits"] is True
    other = Worker("runner-2")
    world(keep_ms=0)
    other.claim()
    assert "keepUnits" not in other.jobs["db"]


def test_a_run_that_took_too_long_keeps_its_healthy_services(worker: Worker):
    run = world()
    worker.claim()
    worker.report("db", "healthy")
    worker.claim()
    _fail(run, RunReason.RUN_TIMEOUT)
    assert [lease.cancel_reason for lease in worker.renew("db", "seed")] == ["detach", "timeout"]
    worker.end("db")
    worker.end("seed", "canceled")
    assert (run.status, is_kept(run)) == ("Failed", True)


@unit_of_work
def _fail(run: Run, reason: RunReason) -> None:
    loaded = load_run(run.pk)
    assert loaded is not None
    fail_run(loaded, reason, "by the test")
    save_runs([loaded])


def test_a_canceled_run_keeps_nothing_even_if_its_verdict_was_given(worker: Worker):
    run = world()
    worker.claim()
    worker.report("db", "healthy")
    worker.claim()
    worker.fail("seed")
    cancel(run.principal, run.id)
    assert [lease.cancel_reason for lease in worker.renew("db")] == ["canceled"]
    worker.end("db", "canceled")
    assert run.status == "Canceled"
    assert api.releasable_runs([run.id]) == [run.id]


def test_a_workspace_keeps_no_more_than_its_limit_and_the_log_says_so(worker: Worker, settings):
    settings.EXECUTION_MAX_KEPT = 1
    mine = somebody()
    first = fail_in(worker, world(principal=mine))
    second = fail_in(worker, world(principal=mine))
    foreign = fail_in(worker, world())
    assert [is_kept(each) for each in (first, second, foreign)] == [True, False, True]
    assert any("EXECUTION_MAX_KEPT" in line["text"] for line in second.lines("system"))


def test_a_restarted_supervisor_neither_takes_nor_drops_what_is_kept(worker: Worker):
    """The verdict does not change either: what is kept belongs to no job."""
    run = fail_in(worker, world())
    adopted = worker.restarted().adopt(*worker.jobs.values())
    assert (adopted.keep, adopted.drop) == ((), ())
    assert run.status == "Failed"


def test_ended_units_of_a_run_that_may_be_kept_survive_a_restart_in_the_middle(worker: Worker):
    run = booted_run(node("seed"), node("slow", after=["seed"]), keep_ms=HALF_AN_HOUR)
    worker.claim()
    worker.end("seed")
    worker.claim()
    worker.report("slow", "running")
    adopted = worker.restarted().adopt(*worker.jobs.values())
    assert ([kept.spec["node"]["id"] for kept in adopted.keep], adopted.drop) == (["slow"], ())
    earlier = {**worker.jobs["seed"], "attempt": 7}
    again = worker.restarted().adopt(earlier, worker.jobs["slow"])
    assert again.drop == (earlier["jobId"],), "not the attempt that ended"
    assert run.status == "Booting"


def test_it_ends_at_its_time_by_the_sweep_alone(worker: Worker):
    run = fail_in(worker, world())
    Execution.objects.filter(pk=run.pk).update(keep_alive_until=clock.now() - timedelta(seconds=1))
    assert not api.releasable_runs([run.id]), "nothing is removed before the sweep says so"
    end_overdue()
    assert api.releasable_runs([run.id]) == [run.id]
    assert run.row.keep_ended_at is not None
    with pytest.raises(api.NotKept, match="was kept until"):
        extend_keeping(run.principal, run.id, 60_000)


def test_it_is_extended_from_now_on(worker: Worker):
    run = fail_in(worker, world())
    soon = clock.now() + timedelta(minutes=1)
    Execution.objects.filter(pk=run.pk).update(keep_alive_until=soon, keep_told_at=clock.now())
    keep = extend_keeping(run.principal, run.id, 3_600_000)
    assert keep["keepAliveMs"] == 3_600_000
    row = run.row
    assert row.keep_alive_until
    assert row.keep_alive_until > soon
    assert row.keep_told_at is None


def test_what_is_over_its_time_is_not_extended_even_before_the_sweep(worker: Worker):
    """Looks at the runtimes may have found it dead by then."""
    run = fail_in(worker, world())
    Execution.objects.filter(pk=run.pk).update(keep_alive_until=clock.now())
    with pytest.raises(api.NotKept, match="is over its time"):
        extend_keeping(run.principal, run.id, 60_000)


def test_its_end_says_by_whom(worker: Worker):
    run = fail_in(worker, world())
    end_keeping(run.principal, run.id)
    assert api.releasable_runs([run.id]) == [run.id]
    assert api.detail(run.principal, run.id)["keep"]["endedBy"] == "Ada Lovelace (ada@example.org)"
    with pytest.raises(api.NotKept):
        end_keeping(run.principal, run.id)


def test_a_cancel_of_the_ended_run_ends_it_once(worker: Worker):
    run = fail_in(worker, world())
    assert cancel(run.principal, run.id)["status"] == "Failed"
    assert not is_kept(run)
    with pytest.raises(ExecutionFinished):
        cancel(run.principal, run.id)


def test_the_reap_of_its_environment_ends_it(worker: Worker):
    run = fail_in(worker, world())
    assert api.cancel_run_of_environment(run.id, by="Grace") is False
    assert (is_kept(run), run.row.keep_ended_by) == (False, "Grace")


def test_a_run_is_not_deleted_while_its_environment_is_kept(worker: Worker):
    run = fail_in(worker, world())
    with pytest.raises(ExecutionActive, match="kept"):
        storage.delete(run.principal, run.id)
    end_keeping(run.principal, run.id)
    storage.delete(run.principal, run.id)


def test_only_runners_of_its_workspace_extend_and_end_it(worker: Worker):
    run = fail_in(worker, world())
    viewer = somebody(workspace_id=run.principal.workspace_id).with_role(Role.VIEWER)
    for change in (end_keeping, lambda who, run_id: extend_keeping(who, run_id, 1)):
        with pytest.raises(Forbidden):
            change(viewer, run.id)
        with pytest.raises(ExecutionNotFound):
            change(somebody(workspace_id=uuid4()), run.id)


def test_a_run_that_is_not_over_cannot_be_extended(worker: Worker):
    run = queued_run(node("a"), keep_ms=HALF_AN_HOUR)
    with pytest.raises(api.NotKept, match="has not finished"):
        extend_keeping(run.principal, run.id, 60_000)


@pytest.fixture
def owner() -> Principal:
    workspace = Workspace.objects.create(name="Lab", slug="lab")
    user = User.objects.create(email="ada@example.org", full_name="Ada", workspace=workspace)
    return replace(somebody(workspace_id=workspace.pk), user_id=user.pk)


def test_its_owner_gets_one_mail_before_each_end(worker: Worker, settings, owner, mailoutbox):
    settings.EXECUTION_KEEP_MAIL = True
    settings.EMAIL_HOST, settings.DEFAULT_FROM_EMAIL = "mail.example.org", "partita@example.org"
    run = fail_in(worker, world(principal=owner))
    tell_owners()
    assert not mailoutbox, "30 minutes are left"
    for number in (1, 2):
        soon = clock.now() + timedelta(minutes=4)
        Execution.objects.filter(pk=run.pk).update(keep_alive_until=soon)
        tell_owners()
        tell_owners()
        assert len(mailoutbox) == number
        assert mailoutbox[-1].to == ["ada@example.org"]
        assert f"partita run keep {run.id} --for 30m" in mailoutbox[-1].body
        extend_keeping(run.principal, run.id, HALF_AN_HOUR)


def test_without_the_setting_no_mail_is_sent(worker: Worker, owner, mailoutbox):
    run = fail_in(worker, world(principal=owner))
    Execution.objects.filter(pk=run.pk).update(keep_alive_until=clock.now() + timedelta(minutes=4))
    tell_owners()
    assert not mailoutbox
