"""Payloads of every platform as events (reference: sync-stack 4.2)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sync_stack.core.bundle.platforms import Flavor, Protocol
from sync_stack.core.events import BadPayload, Effect, Event, EventKind
from sync_stack.core.git_platform import git_platform, normalize
from tests.support.webhooks import (
    C1,
    C2,
    ZERO,
    cloud_pull_request,
    cloud_push,
    datacenter_pull_request,
    datacenter_push,
    github_examples,
    github_push,
    gitlab_merge_request,
    gitlab_push,
    platform,
)

DATACENTER = platform("bitbucket", flavor=Flavor.DATACENTER)


def one(sent, event, payload) -> Event:
    (made,) = normalize(sent, event, payload)
    return made


@pytest.mark.slow
def test_all_examples_of_github_become_one_event_each():
    examples = github_examples()
    assert len(examples) == 36

    for name, payload in examples:
        event = one(platform(), name, payload)
        assert event.repo == "Codertocat/Hello-World"
        assert event.clone_url == "https://github.com/Codertocat/Hello-World.git"
        assert (event.kind is EventKind.PULL_REQUEST) == (name == "pull_request")
        assert Event.from_dict(json.loads(json.dumps(event.as_dict()))) == event


@pytest.mark.parametrize("kind", ["github", "gitea"])
def test_a_push_names_its_branch_commits_and_files(kind):
    event = one(platform(kind), "push", json.loads(github_push(forced=True)))

    assert (event.kind, event.branch, event.ref) == (EventKind.PUSH, "main", "refs/heads/main")
    assert (event.before, event.commit, event.forced) == (C1, C2, True)
    assert event.files == ("a.yaml", "b.yaml")


def test_a_tag_is_never_the_branch_of_its_name():
    """Sync invariant 9."""
    event = one(platform(), "push", json.loads(github_push(ref="refs/tags/main")))

    assert (event.kind, event.tag, event.branch) == (EventKind.TAG, "main", "")


@pytest.mark.parametrize("more", [{"deleted": True}, {"after": ZERO}])
def test_a_deleted_ref_has_no_commit(more):
    event = one(platform(), "push", json.loads(github_push(**more)))

    assert event.deleted
    assert event.commit == ""


def test_a_pull_request_whose_head_repository_is_gone_counts_as_a_fork():
    """Sync invariant 9."""
    payload = {
        "action": "opened",
        "number": 4,
        "repository": {"full_name": "acme/shop"},
        "pull_request": {"head": {"sha": C2, "repo": None}, "updated_at": "2024-01-01T00:00:00Z"},
    }
    event = one(platform(), "pull_request", payload)

    assert (event.ref, event.pr, event.fork) == ("refs/pull/4/head", 4, True)


def test_gitlab_pushes_tags_and_merge_requests():
    gitlab = platform("gitlab")
    push = one(gitlab, "Push Hook", gitlab_push())
    tag = one(gitlab, "Tag Push Hook", gitlab_push(ref="refs/tags/v1", after=C1))
    gone = one(gitlab, "Push Hook", gitlab_push(after=ZERO, checkout_sha=None))
    request = one(gitlab, "Merge Request Hook", gitlab_merge_request())
    fork = one(gitlab, "Merge Request Hook", gitlab_merge_request(source_project_id=2))

    assert (push.repo, push.commit, push.branch) == ("group/sub/shop", C2, "main")
    assert push.clone_url == "https://gitlab.com/group/sub/shop.git"
    assert (tag.tag, tag.commit) == ("v1", C2)
    assert gone.deleted
    assert (request.ref, request.pr, request.commit) == ("refs/merge-requests/7/head", 7, C2)
    assert request.pr_time is not None
    assert request.pr_time.isoformat() == "2024-05-01T10:00:00+00:00"
    assert (request.fork, fork.fork) == (False, True)


def test_one_bitbucket_push_may_change_several_refs():
    cloud = platform("bitbucket")
    gone = {"old": {"type": "branch", "name": "old", "target": {"hash": C1}}, "new": None}
    tag = {"old": None, "new": {"type": "tag", "name": "v2", "target": {"hash": C2}}}
    deleted, tagged = normalize(cloud, "repo:push", cloud_push(gone, tag))

    assert (deleted.branch, deleted.deleted, deleted.before) == ("old", True, C1)
    assert (tagged.tag, tagged.commit) == ("v2", C2)


def test_bitbucket_cloud_pull_requests():
    cloud = platform("bitbucket")
    event = one(cloud, "pullrequest:updated", cloud_pull_request())
    fork = one(cloud, "pullrequest:created", cloud_pull_request("mallory/shop"))

    assert (event.action, event.pr, event.commit) == ("updated", 9, "2" * 12)
    assert event.ref == "refs/heads/feature/x"
    assert (event.fork, fork.fork) == (False, True)


def test_bitbucket_data_center_has_its_own_payloads_and_clone_paths():
    push = one(DATACENTER, "repo:refs_changed", datacenter_push())
    gone = one(DATACENTER, "repo:refs_changed", datacenter_push("DELETE"))
    request = one(DATACENTER, "pr:from_ref_updated", datacenter_pull_request())
    fork = one(DATACENTER, "pr:opened", datacenter_pull_request("~ANN"))

    assert (push.repo, push.commit) == ("PRJ/shop", C2)
    assert push.clone_url == "https://bitbucket.example/scm/PRJ/shop.git"
    assert gone.deleted
    assert (request.ref, request.action) == ("refs/pull-requests/3/from", "from_ref_updated")
    assert request.pr_time is not None
    assert request.pr_time.isoformat() == "2017-09-18T23:58:11+00:00"
    assert (request.fork, fork.fork) == (False, True)


@pytest.mark.parametrize(
    ("kind", "sync", "close"),
    [
        ("github", {"opened", "reopened", "synchronize"}, {"closed"}),
        ("gitea", {"opened", "reopened", "synchronized"}, {"closed"}),
        ("gitlab", {"open", "reopen", "update"}, {"close", "merge"}),
        ("bitbucket", {"created", "updated"}, {"fulfilled", "rejected"}),
        ("bitbucket", {"opened", "from_ref_updated"}, {"merged", "declined", "deleted"}),
    ],
)
def test_what_actions_of_pull_requests_ask_for(kind, sync, close):
    effect = git_platform(platform(kind)).effect

    assert {effect(action) for action in sync} == {Effect.SYNC}
    assert {effect(action) for action in close} == {Effect.CLOSE}
    assert effect("labeled") is Effect.NONE


@pytest.mark.parametrize(
    "repo", ["../etc", "acme/../x", "acme", "a b/c", "acme/$(id)", "a/b\nc", "acme//x", "/x", "a/."]
)
def test_names_that_could_leave_the_host_are_refused(repo):
    """Sync invariants 28 and 29."""
    with pytest.raises(BadPayload, match="repository"):
        normalize(platform(), "push", json.loads(github_push(repo=repo)))


NO_REFS = """
main refs/notes/x refs/heads/a..b refs/heads/x~1 refs/heads/a.lock refs/heads//a refs/heads/@{u}
refs/heads/ refs/heads/.a
"""


@pytest.mark.parametrize("ref", [*NO_REFS.split(), "refs/heads/a b", "refs/heads/a\n"])
def test_what_is_no_branch_or_tag_is_refused(ref):
    """Sync invariant 29."""
    with pytest.raises(BadPayload):
        normalize(platform(), "push", json.loads(github_push(ref=ref)))


def test_bitbucket_data_center_has_scm_in_clone_urls_of_http_only():
    urls = [
        git_platform(each).clone_url(each, "PRJ/shop")
        for each in (DATACENTER, replace(DATACENTER, protocol=Protocol.SSH))
    ]

    assert urls == [
        "https://bitbucket.example/scm/PRJ/shop.git",
        "ssh://git@bitbucket.example/PRJ/shop.git",
    ]


def test_the_clone_url_never_comes_from_the_payload():
    """Sync invariant 28."""
    payload = json.loads(github_push())
    payload["repository"] |= {"clone_url": "https://evil.example/x.git", "ssh_url": "git@evil:x"}
    https = one(platform(endpoint="https://ghe.example"), "push", payload)
    ssh = one(platform(endpoint="https://ghe.example", protocol=Protocol.SSH), "push", payload)

    assert https.clone_url == "https://ghe.example/acme/shop.git"
    assert ssh.clone_url == "ssh://git@ghe.example/acme/shop.git"
