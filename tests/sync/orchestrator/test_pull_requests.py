"""Pull requests: what is looked at later knows what their events said."""

from __future__ import annotations

import pytest

from sync_stack.core.bundle.rules import Cleanup, CleanupAction
from sync_stack.core.tasks import TaskKind
from sync_stack.orchestrator.models import RefRecord, Task
from sync_stack.orchestrator.services.reconcile import reconcile
from sync_stack.orchestrator.services.triggers import trigger_ref
from tests.support.sync_world import World, rule

pytestmark = pytest.mark.store
REF = "refs/pull/7/head"
DESTINATION = "pr-7-shop"


def previews(tmp_path, **fields) -> World:
    known = {"env_as_pr": True, "cleanup": Cleanup(on_pr_close=CleanupAction.PRUNE)}
    return World(tmp_path, rules=(rule(**known | fields),))


def change(world: World, text: str) -> str:
    """The pull request's head, as the platform shows it."""
    commit = world.repository.commit({"app.yaml": text}, branch="feature")
    world.repository.git("push", "-q", "--force", "origin", f"{commit}:{REF}")
    return commit


def tell(world: World, action: str, commit: str, *, minute: int = 0, fork: bool = False) -> Task:
    owner = "stranger/shop" if fork else world.repository.name
    pull = {
        "number": 7,
        "head": {"sha": commit, "ref": "feature", "repo": {"full_name": owner}},
        "base": {"ref": "main", "repo": {"full_name": world.repository.name}},
        "updated_at": f"2026-01-01T00:{minute:02}:00Z",
    }
    payload = {"action": action, "number": 7, "pull_request": pull}
    return world.finish(
        world.deliver(
            "pull_request", payload | {"repository": {"full_name": world.repository.name}}
        )
    )


def settle(world: World) -> None:
    reconcile(world.ports())
    for task in Task.objects.filter(state="PENDING"):
        world.finish(task)


def test_a_forks_change_whose_webhook_was_lost_writes_nothing_either(tmp_path):
    """Sync invariant 9."""
    world = previews(tmp_path)
    assert tell(world, "opened", change(world, "a: 1\n"), fork=True).message == (
        "pull_request_ignored"
    )
    change(world, "a: 2\n")
    settle(world)
    assert Task.objects.get(kind="reconcile").message == "pull_request_ignored"
    assert world.values(DESTINATION) == {}


def test_a_pull_request_that_no_event_told_of_counts_as_a_forks(tmp_path):
    """Sync invariant 9: an operator asks for its ref."""
    world = previews(tmp_path)
    change(world, "a: 1\n")
    made = trigger_ref(
        TaskKind.MANUAL,
        world.bundle,
        world.rules[0],
        world.repository.name,
        REF,
        world.published.extend,
    )
    assert world.finish(made.task).message == "pull_request_ignored"
    assert world.values(DESTINATION) == {}


def test_an_allowed_forks_change_still_gets_no_secret_after_a_lost_webhook(tmp_path):
    """Sync invariant 9: nothing of the base repository's goes to a fork's content."""
    world = previews(tmp_path, pr_from_forks=True)
    tell(world, "opened", change(world, "a: 1\n"), fork=True)
    assert world.values(DESTINATION) == {"a": "1"}
    change(world, 'a: "@secret(db#password)"\n')
    settle(world)
    assert Task.objects.get(kind="reconcile").message == "secret_invalid"
    assert world.values(DESTINATION) == {"a": "1"}


def test_a_pull_request_of_the_repository_is_brought_up_to_date_after_a_lost_webhook(tmp_path):
    """Sync invariant 12."""
    world = previews(tmp_path)
    tell(world, "opened", change(world, "a: 1\n"))
    change(world, "a: 2\n")
    settle(world)
    assert world.values(DESTINATION) == {"a": "2"}


def test_a_closed_pull_request_is_not_brought_back_by_what_comes_after(tmp_path):
    """Sync invariant 7: neither by a label nor by the next look, though its ref stays for ever."""
    world = previews(tmp_path)
    commit = change(world, "a: 1\n")
    tell(world, "opened", commit, minute=1)
    assert tell(world, "closed", commit, minute=2).message == "cleaned_up"
    assert tell(world, "labeled", commit, minute=3).message == "pull_request_action_ignored"
    settle(world)
    change(world, "a: 2\n")
    settle(world)
    assert world.values(DESTINATION) == {}


def test_a_merged_pull_request_whose_branch_lives_is_no_deleted_ref(tmp_path):
    world = previews(tmp_path, cleanup=Cleanup())
    commit = change(world, "a: 1\n")
    tell(world, "opened", commit, minute=1)

    closed = tell(world, "closed", commit, minute=2)

    assert (closed.state, closed.message) == ("SUCCEEDED", "pull_request_ignored")
    assert world.values(DESTINATION) == {"a": "1"}
    assert RefRecord.objects.get(ref=REF).seen["action"] == "closed"


def test_news_that_comes_after_the_closing_but_is_older_opens_nothing(tmp_path):
    """Sync invariant 7."""
    world = previews(tmp_path)
    commit = change(world, "a: 1\n")
    tell(world, "opened", commit, minute=1)
    tell(world, "closed", commit, minute=3)
    assert tell(world, "synchronize", commit, minute=2).message == "pull_request_ignored"
    assert world.values(DESTINATION) == {}
    assert tell(world, "reopened", commit, minute=4).message == "completed"
    assert world.values(DESTINATION) == {"a": "1"}


def test_an_old_closing_after_a_reopening_closes_nothing(tmp_path):
    """Sync invariant 7."""
    world = previews(tmp_path)
    commit = change(world, "a: 1\n")
    tell(world, "opened", commit, minute=1)
    tell(world, "reopened", commit, minute=4)
    assert tell(world, "closed", commit, minute=3).state == "SUCCEEDED"
    assert world.values(DESTINATION) == {"a": "1"}
    assert RefRecord.objects.get(ref=REF).seen["action"] == "reopened"
