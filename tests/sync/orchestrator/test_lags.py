"""Which targets are behind, since when and why: of the store, of `sync status` and of the API."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from kernel import clock
from sync_stack.core.bundle.file_maps import FileEnvironment
from sync_stack.core.bundle.rules import Prune
from sync_stack.orchestrator.domain.identity import RefName
from sync_stack.orchestrator.domain.task_documents import TaskRequest
from sync_stack.orchestrator.management.base import age_of
from sync_stack.orchestrator.models import LedgerTarget, RefRecord, Task
from sync_stack.orchestrator.selectors import lags, task_refs
from sync_stack.orchestrator.selectors.lags import UnappliedRef
from sync_stack.orchestrator.services.operator_requests import trigger_manual, trigger_purge
from sync_stack.orchestrator.services.triggers import Heal, trigger_heal
from tests.support.sync_world import World, rule

pytestmark = pytest.mark.store


def lag_of_the_target():
    (target,) = LedgerTarget.objects.all()
    return lags.list_lags([target]).by_target.get(target.id)


def unapplied(where: dict[str, str]) -> list[UnappliedRef]:
    found = lags.list_unapplied(where)
    assert not found.is_cut
    return list(found.refs)


def status(*words: str) -> str:
    out = StringIO()
    call_command("sync", "status", *words, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("passed_s", "age"), [(0, "0s"), (59, "59s"), (61, "1m"), (7201, "2h"), (190_000, "2d")]
)
def test_people_read_an_age(passed_s: int, age: str, monkeypatch):
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(seconds=passed_s))

    assert age_of(now) == age
    assert age_of(None) == "-"


@pytest.fixture
def guarded(tmp_path) -> World:
    return World(tmp_path, rules=(rule(prune=Prune(enabled=True)),))


@pytest.fixture
def two_environments(tmp_path) -> World:
    entries = (
        FileEnvironment(path="p.yaml", env="production", by_env=True),
        FileEnvironment(path="s.yaml", env="staging", by_env=True),
    )
    rules = (rule(file_name="", branch_map={}, file_path_map=entries, prune=Prune(enabled=True)),)
    return World(tmp_path, rules=rules)


def lags_by_environment():
    targets = list(LedgerTarget.objects.all())
    found = lags.list_lags(targets).by_target
    return {target.env: found.get(target.id) for target in targets}


def test_a_target_with_the_head_of_its_ref_is_not_behind(world):
    task = world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))

    assert lag_of_the_target() is None
    assert unapplied({}) == []
    world.push(json.loads(json.dumps(task.request))["events"][0]["commit"])
    assert lag_of_the_target() is None  # delivered once more


def test_a_push_that_waits_makes_its_target_behind_since_it_came(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    commit = world.repository.commit({"app.yaml": "a: 2\n"})
    task = world.push(commit)

    lag = lag_of_the_target()

    assert (lag.state, lag.commit, lag.task_id) == ("pending", commit, task.id)
    assert lag.since.startswith(task.created_at.isoformat()[:19])
    assert "sync watch " + task.id in lag.next_step
    world.finish(task)
    assert lag_of_the_target() is None


def trigger_head(world: World) -> Task:
    ports = world.ports()
    (task,) = trigger_manual(ports, world.rules[0], repo="acme/shop")
    return task


def test_a_request_to_look_makes_nothing_behind_that_holds_the_last_head(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    task = trigger_head(world)

    assert lag_of_the_target() is None
    Task.objects.filter(id=task.id).update(
        state="RETRYING", error={"code": "sink_auth", "detail": "refused", "retryable": True}
    )
    assert lag_of_the_target().code == "sink_auth"


def test_a_deleted_branch_makes_its_target_behind_until_it_is_cleaned_up(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}, branch="develop"))
    task = world.push("0" * 40, "develop", deleted=True)

    lag = lag_of_the_target()

    assert (lag.state, lag.task_id) == ("pending", task.id)


def test_a_request_to_look_after_a_failure_is_what_brings_the_head(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    world.finish(world.commit_and_push({"app.yaml": "a: [\n"}))
    task = trigger_head(world)

    lag = lag_of_the_target()

    assert (lag.state, lag.task_id) == ("pending", task.id)


def test_a_push_to_another_branch_leaves_the_target_alone(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    world.commit_and_push({"app.yaml": "a: 2\n"}, branch="develop")

    assert lag_of_the_target() is None


def test_a_guard_that_kept_keys_is_named_with_what_approves_it(guarded):
    guarded.finish(guarded.commit_and_push({"app.yaml": "a: 1\nb: 2\nc: 3\n"}))
    stopped = guarded.finish(guarded.commit_and_push({"app.yaml": "a: 1\n"}))

    lag = lag_of_the_target()

    assert (lag.state, lag.code) == ("failed", "prune_guard")
    assert f"partita sync approve-prune {stopped.id}" in lag.next_step
    shown = status()
    assert "prune_guard" in shown
    assert re.search(r"behind for \d+[sm]: failed, prune_guard: ", shown)
    guarded.finish(guarded.commit_and_push({"app.yaml": "a: 1\nb: 2\nc: 3\n"}))
    assert lag_of_the_target() is None


def test_a_target_left_alone_because_another_one_failed_is_behind_too(two_environments):
    world = two_environments
    world.finish(world.commit_and_push({"p.yaml": "a: 1\nb: 2\nc: 3\n", "s.yaml": "a: 1\n"}))
    first = world.repository.head()
    stopped = world.finish(world.commit_and_push({"p.yaml": "a: 1\n", "s.yaml": "a: 2\n"}))
    outcomes = {each["env"]: each["outcome"] for each in stopped.result["targets"]}
    assert outcomes == {"production": "failed", "staging": "skipped"}
    assert set(LedgerTarget.objects.values_list("commit", flat=True)) == {first}

    found = lags_by_environment()

    assert {env: lag and lag.code for env, lag in found.items()} == {
        "production": "prune_guard",
        "staging": "prune_guard",
    }
    shown = json.loads(status("--behind", "-o", "json"))["targets"]
    assert sorted(target["env"] for target in shown) == ["production", "staging"]


def test_a_new_environment_whose_file_is_broken_makes_the_others_behind(two_environments):
    world = two_environments
    world.finish(world.commit_and_push({"p.yaml": "a: 1\n"}))
    failed = world.finish(world.commit_and_push({"p.yaml": "a: 2\n", "s.yaml": "a: [\n"}))

    (lag,) = lags_by_environment().values()

    assert (lag.task_id, lag.code, lag.file) == (failed.id, "parse_error", "s.yaml")


def test_a_target_that_held_the_head_before_the_failure_is_well(two_environments):
    world = two_environments
    files: dict[str, str | None] = {"p.yaml": "a: 1\nb: 2\nc: 3\n", "s.yaml": "a: 1\n"}
    world.finish(world.commit_and_push(files))
    world.finish(world.commit_and_push({"p.yaml": "a: 1\n"}))
    head = world.repository.head()
    LedgerTarget.objects.filter(env="staging").update(commit=head)

    found = lags_by_environment()

    assert found["production"]
    assert found["staging"] is None


def test_a_file_that_does_not_parse_is_named_with_its_line(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: [\n"}))

    lag = lag_of_the_target()

    assert (lag.state, lag.code, lag.file) == ("failed", "parse_error", "app.yaml")
    assert lag.line > 1
    assert lag.next_step == f"fix app.yaml:{lag.line} in Git and push"


def test_a_repository_that_is_away_is_the_reason_while_it_is_tried_again(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    task = world.commit_and_push({"app.yaml": "a: 2\n"})
    world.repository.bare.rename(world.folder / "away")
    world.run(task)
    found = Task.objects.get(id=task.id)

    lag = lag_of_the_target()

    assert (lag.state, lag.code) == (found.state.lower(), found.error["code"])
    assert lag.detail == found.error["detail"]


STALE_SINCE = "2026-01-05T10:00:00.000Z"
PLAIN = "Git could not be read, or the head of the ref could not be parsed"


def failed_task(world: World, code: str, *, branch: str = "main", **columns) -> Task:
    """A task that failed so; the targets of `main` are stale for some other reason."""
    task = world.push(world.repository.head(), branch)
    error = {"code": code, "detail": "it failed", "retryable": False}
    known = {"state": "FAILED", "message": code, "error": error, "finished_at": clock.now()}
    Task.objects.filter(id=task.id).update(**known | columns)
    LedgerTarget.objects.update(stale_since=STALE_SINCE)
    return task


@pytest.mark.parametrize(
    ("code", "branch", "columns"),
    [
        ("prune_guard", "main", {}),
        ("sink_auth", "main", {}),
        ("parse_error", "develop", {}),
        ("git_auth", "main", {"datasource": "other"}),
        ("git_auth", "main", {"platform": "gitlab"}),
        ("git_auth", "main", {"finished_at": datetime(2026, 1, 5, 9, 59, tzinfo=UTC)}),
    ],
)
def test_a_stale_target_shows_no_failure_that_did_not_make_it_stale(world, code, branch, columns):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    failed_task(world, code, branch=branch, **columns)

    lag = lag_of_the_target()

    assert (lag.state, lag.code, lag.task_id, lag.detail) == ("stale", "", "", PLAIN)
    assert lag.next_step.startswith("partita sync history --repo acme/shop")


@pytest.mark.parametrize(
    ("code", "branch"), [("git_auth", "main"), ("git_auth", "develop"), ("parse_error", "main")]
)
def test_a_stale_target_shows_the_failure_that_made_it_stale(world, code, branch):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    task = failed_task(world, code, branch=branch)
    failed_task(world, "prune_guard", branch="develop")

    lag = lag_of_the_target()

    assert (lag.state, lag.code, lag.task_id, lag.detail) == ("stale", code, task.id, "it failed")
    assert lag.since == STALE_SINCE


def test_a_plan_a_heal_and_a_purge_make_nothing_behind(world):
    world.with_rules(self_heal=True)
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    (target,) = LedgerTarget.objects.all()
    world.repository.commit({"app.yaml": "a: 2\n"})
    heal = Heal(
        datasource="sink",
        rule="shop",
        repo=target.repo,
        env=target.env,
        destination_id=target.destination_id,
        idempotency_key="heal",
        commit=target.commit,
    )

    made = [
        *trigger_manual(world.ports(), world.rules[0], repo="acme/shop", dry_run=True),
        trigger_heal(heal, world.bundle, world.published.extend).task,
        trigger_purge(world.bundle, target),
    ]

    requests = [TaskRequest.of(task.request) for task in made]
    assert [(each.dry_run, bool(each.heal), each.purge) for each in requests] == [
        (True, False, ""),
        (False, True, ""),
        (False, False, target.id),
    ]
    assert lag_of_the_target() is None
    assert unapplied({}) == []
    # nor where they name a commit
    for task in made[:2]:
        events = [task.request["events"][0] | {"commit": "0" * 39 + "1"}]
        Task.objects.filter(id=task.id).update(request=task.request | {"events": events})
    assert lag_of_the_target() is None


def test_a_first_push_that_was_never_applied_is_listed_although_it_has_no_target(world):
    waiting = world.commit_and_push({"app.yaml": "a: [\n"})

    (ref,) = unapplied({})
    assert (ref.rule, ref.repo, ref.ref) == ("", "acme/shop", "refs/heads/main")
    assert ref.lag.state == "pending"
    world.finish(waiting)

    (ref,) = unapplied({"rule_id": "shop"})
    assert (ref.rule, ref.lag.code, ref.lag.file) == ("shop", "parse_error", "app.yaml")
    assert "nothing applied for " in status()
    assert "fix app.yaml" in status("--repo", "acme/shop")
    assert unapplied({"rule_id": "other"}) == []


def test_a_waiting_first_push_is_of_a_rule_only_when_its_task_says_so(world):
    world.repository.commit({"app.yaml": "a: 1\n"})
    pushed = world.push(world.repository.head())

    assert [ref.lag.task_id for ref in unapplied({})] == [pushed.id]
    assert unapplied({"rule_id": "shop"}) == []
    Task.objects.all().delete()
    task = trigger_head(world)
    (ref,) = unapplied({"rule_id": "shop"})
    assert (ref.rule, ref.lag.task_id) == ("shop", task.id)
    assert unapplied({"rule_id": "other"}) == []


def test_a_branch_with_nothing_to_apply_is_not_listed(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}, branch="feature/x"))

    assert unapplied({}) == []


def many_targets(number: int) -> None:
    """Copies of the only target and its record, each in a repository of its own, and stale."""
    (target,) = LedgerTarget.objects.all()
    (record,) = RefRecord.objects.all()
    for count in range(number):
        repo = f"acme/copy-{count}"
        target.id, target.key, target.repo = f"{count:036d}", f"{count:064d}", repo
        target.stale_since = STALE_SINCE
        target.save(force_insert=True)
        record.id = RefName(rule=record.rule_id, repo=repo, ref=record.ref).hash
        record.repo = repo
        record.save(force_insert=True)


def waiting_copies(task: Task, number: int) -> None:
    for count in range(number):
        task.id, task.idempotency_key = f"{count:036d}", f"copy-{count}"
        task.save(force_insert=True)


def test_a_page_of_targets_costs_as_many_queries_as_one_target(
    world, django_assert_max_num_queries
):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    many_targets(40)
    targets = list(LedgerTarget.objects.all())

    with django_assert_max_num_queries(5) as asked:
        found = lags.list_lags(targets)

    assert len(found.by_target) == 40
    assert not any('"recent"' in query["sql"] for query in asked.captured_queries)


def test_refs_of_many_repositories_cost_as_many_queries_as_those_of_one(
    world, django_assert_max_num_queries
):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    many_targets(40)
    LedgerTarget.objects.all().delete()
    world.finish(world.commit_and_push({"app.yaml": "a: [\n"}, branch="develop"))

    with django_assert_max_num_queries(4) as asked:
        found = lags.list_unapplied({})

    assert [ref.ref for ref in found.refs] == ["refs/heads/develop"]
    assert not any('"recent"' in query["sql"] for query in asked.captured_queries)


def test_a_push_behind_a_thousand_tasks_of_others_makes_its_target_behind(world, monkeypatch):
    monkeypatch.setattr(task_refs, "MAX_LIVE", 3)
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    waiting_copies(world.commit_and_push({"app.yaml": "a: 1\n"}, branch="develop"), 5)
    task = world.commit_and_push({"app.yaml": "a: 2\n"})
    (target,) = LedgerTarget.objects.all()

    found = lags.list_lags([target])

    assert found.by_target[target.id].task_id == task.id
    assert not found.is_cut


def test_a_list_says_when_it_has_not_read_all_tasks_that_wait(world, monkeypatch):
    monkeypatch.setattr(task_refs, "MAX_LIVE", 3)
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    waiting_copies(world.commit_and_push({"app.yaml": "a: 2\n"}), 5)

    assert lags.list_lags(list(LedgerTarget.objects.all())).is_cut
    assert lags.list_unapplied({}).is_cut
    assert "not all that is behind may be shown" in status()
    assert json.loads(status("-o", "json"))["incomplete"]


def test_a_list_says_when_there_are_more_refs(world, monkeypatch):
    monkeypatch.setattr(lags, "MAX_UNAPPLIED", 1)
    world.commit_and_push({"app.yaml": "a: 1\n"})
    assert not lags.list_unapplied({}).is_cut
    world.commit_and_push({"app.yaml": "a: 1\n"}, branch="develop")

    found = lags.list_unapplied({})

    assert (len(found.refs), found.is_cut) == (1, True)


def test_only_what_is_behind_is_listed_on_request(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}, branch="develop"))
    world.finish(world.commit_and_push({"app.yaml": "a: [\n"}))

    found = json.loads(status("--behind", "-o", "json"))

    assert [(each["env"], each["behind"]["code"]) for each in found["targets"]] == [
        ("production", "parse_error")
    ]


def test_a_task_is_shown_with_what_went_wrong_and_a_watched_one_ends_with_it(guarded, capsys):
    done = guarded.finish(guarded.commit_and_push({"app.yaml": "a: 1\nb: 2\nc: 3\n"}))
    stopped = guarded.finish(guarded.commit_and_push({"app.yaml": "a: 1\n"}))

    call_command("sync", "show", stopped.id)

    shown = capsys.readouterr().out
    assert f"webhook task {stopped.id}: FAILED, prune_guard" in shown
    assert "would delete b, c" in shown
    call_command("sync", "watch", done.id)
    with pytest.raises(CommandError, match="prune_guard: ") as ended:
        call_command("sync", "watch", stopped.id)
    assert ended.value.returncode == 1


@pytest.mark.parametrize(
    ("words", "code"), [(["nothing"], 3), (["nothing", "--timeout", "soon"], 2)]
)
def test_a_task_that_is_not_there_and_a_time_that_is_none_are_refused(words, code):
    with pytest.raises(CommandError) as refused:
        call_command("sync", "watch", *words)
    assert refused.value.returncode == code


def test_a_watch_ends_in_time_while_the_task_goes_on(world):
    task = world.commit_and_push({"app.yaml": "a: 1\n"})

    with pytest.raises(CommandError, match="is PENDING after 10ms, and goes on") as ended:
        call_command("sync", "watch", task.id, "--timeout", "10ms")

    assert ended.value.returncode == 13
