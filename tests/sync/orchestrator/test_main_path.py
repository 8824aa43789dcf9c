"""A push becomes settings in a sink."""

from __future__ import annotations

from pathlib import Path

import pytest

from sync_stack.orchestrator.models import (
    DestinationLock,
    JournalChunk,
    LedgerTarget,
    RefRecord,
    Task,
)
from sync_stack.repositories import Remote, Repositories, RepositorySource, TreeEntry
from tests.support.sync_world import rule

pytestmark = pytest.mark.store


def test_a_push_brings_the_files_settings_to_the_sink(world):
    task = world.run(world.commit_and_push({"app.yaml": "db:\n  host: a\n  port: 1\n"}))
    assert (task.state, task.message, task.error) == ("SUCCEEDED", "completed", {})
    assert world.values() == {"db.host": "a", "db.port": "1"}
    assert task.result["written"] == 2
    assert task.result["files"][0]["file"] == "app.yaml"


def test_the_ledger_says_what_was_applied_and_nothing_is_left_over(world):
    commit = world.repository.commit({"app.yaml": "a: 1\n"})
    task = world.run(world.push(commit))
    unit = LedgerTarget.objects.get()
    assert (unit.commit, unit.ref, unit.generation, unit.keys) == (commit, "refs/heads/main", 1, 1)
    assert (unit.intent_task_id, unit.last_task_id) == ("", task.id)
    assert not JournalChunk.objects.exists()
    assert DestinationLock.objects.get().holder_task == ""
    assert RefRecord.objects.get().seen["commit"] == commit


def test_the_same_content_again_is_no_change(world):
    world.run(world.commit_and_push({"app.yaml": "a: 1\n"}))
    task = world.run(world.commit_and_push({"other.txt": "x"}))
    assert (task.message, task.result["unchanged"]) == ("no_changes", 1)


def test_a_branch_that_is_not_mapped_writes_nothing(world):
    world.commit_and_push({"app.yaml": "a: 1\n"})
    task = world.run(world.commit_and_push({"app.yaml": "a: 2\n"}, branch="feature"))
    assert (task.state, task.message) == ("SUCCEEDED", "ref_not_mapped")
    assert world.values() == {}


def test_a_repository_that_no_rule_matches_is_said_so(world):
    task = world.deliver(
        "push",
        {"ref": "refs/heads/main", "after": "a" * 40, "repository": {"full_name": "other/x"}},
    )
    assert world.run(task).message == "repository_not_matched"


def test_a_file_that_does_not_parse_changes_nothing_and_is_not_tried_again(world):
    """Sync invariant 18."""
    world.run(world.commit_and_push({"app.yaml": "a: 1\n"}))
    task = world.run(world.commit_and_push({"app.yaml": "a: [1\n"}))
    assert (task.state, task.message) == ("FAILED", "parse_error")
    assert task.error["file"] == "app.yaml"
    assert world.values() == {"a": "1"}


def test_a_tracked_file_that_is_gone_keeps_its_keys(world):
    """Sync invariant 14."""
    world.run(world.commit_and_push({"app.yaml": "a: 1\n"}))
    task = world.run(world.commit_and_push({"app.yaml": None}))
    assert (task.state, task.message) == ("SUCCEEDED", "no_files")
    assert world.values() == {"a": "1"}


def test_git_that_cannot_be_read_is_neither_success_nor_missing_file(world):
    """Sync invariant 19."""
    task = world.commit_and_push({"app.yaml": "a: 1\n"})
    world.repository.bare.rename(world.folder / "away")
    task = world.run(task)
    assert (task.state, task.message) == ("FAILED", "repository_not_found")
    assert Task.objects.get(id=task.id).error["retryable"] is False


class Listing(Repositories):
    """Notes what is fetched and listed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, allow_file=True)
        self.asked: list[str] = []

    def fetch(self, source: RepositorySource, commit: str, *, ref: str = "") -> None:
        self.asked.append("fetch")
        super().fetch(source, commit, ref=ref)

    def tree(self, source: RepositorySource, commit: str) -> dict[str, TreeEntry]:
        self.asked.append("tree")
        return super().tree(source, commit)

    def ls_remote(self, source: RepositorySource) -> Remote:
        self.asked.append("ls_remote")
        return super().ls_remote(source)


def test_the_rules_of_a_task_ask_for_the_head_each_and_for_its_files_once(world, tmp_path):
    more = rule(name="more", destination_template="more-{env}-{repo}")
    world.rules = (*world.rules, more)
    repositories = Listing(tmp_path / "cache")

    task = world.run(world.commit_and_push({"app.yaml": "a: 1\n"}), repositories=repositories)

    assert task.message == "completed"
    assert sorted(repositories.asked) == ["fetch", "ls_remote", "ls_remote", "tree"]
    assert world.values() == world.values("more-production-shop") == {"a": "1"}
