"""Which environment a ref is for (reference: sync-stack 4.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sync_stack.core.bundle.file_maps import FileEnvironment
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.environments import EnvironmentSource, resolve, slug
from sync_stack.core.events import Event, EventKind


def event(kind: EventKind = EventKind.PUSH, **fields) -> Event:
    named = {"platform": "github", "repo": "a/b", "clone_url": "", "ref": "", "branch": "main"}
    return Event(kind=kind, **(named | fields))


def rule_with(**fields) -> Rule:
    repositories = ("a/b",)
    return Rule(
        platform="github", datasource="redis", segment="redis", repositories=repositories, **fields
    )


def resolved(rules: Rule, sent: Event):
    return resolve(rules, sent, default_branch="main")


def named(rules: Rule, branch: str) -> str:
    made = resolved(rules, event(branch=branch))
    return str(made.environment or made.word)


FILES = (FileEnvironment(path="a.yaml", env="production"),)


def test_a_rule_without_any_source_serves_the_default_branch_as_default():
    assert named(rule_with(), "main") == "default"
    assert named(rule_with(), "other") == "ref_not_mapped"


def test_an_exact_branch_beats_the_longest_pattern():
    rules = rule_with(
        branch_map={"release/*": "staging", "release/1.*": "old", "release/1.2": "production"}
    )
    assert named(rules, "release/1.2") == "production"
    assert named(rules, "release/1.3") == "old"
    assert named(rules, "release/2") == "staging"
    assert named(rules, "main") == "ref_not_mapped"


def test_branches_that_are_not_listed_get_nothing_even_when_mapped():
    rules = rule_with(branches=("rel-*",), branch_map={"main": "production"})
    assert named(rules, "main") == "ref_not_mapped"


def test_files_name_environments_on_listened_branches_only():
    rules = rule_with(file_path_map=FILES, env_as_branch=True)
    assert resolved(rules, event(branch="main")).source is EnvironmentSource.FILES
    assert named(rules, "Feature/X") == "feature-x"


def test_default_env_is_for_listened_branches_that_nothing_else_maps():
    rules = rule_with(branches=("main", "dev"), branch_map={"main": "p"}, default_env="x")
    assert named(rules, "dev") == "x"
    assert named(rules, "other") == "ref_not_mapped"


def test_tags_and_pull_requests_never_use_the_maps_of_branches():
    """Sync invariant 9."""
    rules = rule_with(branch_map={"main": "production"}, default_env="x")
    tag = event(EventKind.TAG, branch="", tag="main")
    request = event(EventKind.PULL_REQUEST, branch="", pr=5)

    assert resolved(rules, tag).word == "ref_not_mapped"
    assert resolved(rules, request).word == "pull_request_ignored"


def test_a_fork_needs_pr_from_forks():
    """Sync invariant 9."""
    fork = event(EventKind.PULL_REQUEST, branch="", pr=5, fork=True)

    assert resolved(rule_with(env_as_pr=True), fork).environment == ""
    allowed = resolved(rule_with(env_as_pr=True, pr_from_forks=True), fork)
    assert (allowed.environment, allowed.source) == ("pr-5", EnvironmentSource.PULL_REQUEST)


def test_tags_become_slugs_where_asked_for():
    made = resolved(rule_with(env_as_tags=True), event(EventKind.TAG, tag="V1.0/RC"))
    assert (made.environment, made.source) == ("v1.0-rc", EnvironmentSource.TAG)


@pytest.mark.parametrize(
    ("text", "made"),
    [("Feature/ABC", "feature-abc"), ("..", ""), ("-a-", "a"), ("a..b", "a.b"), ("é", "")],
)
def test_slugs(text, made):
    assert slug(text) == made


@given(st.text(max_size=200))
def test_a_slug_never_leaves_its_place(text):
    """Sync invariant 29."""
    made = slug(text)
    assert len(made) <= 63
    assert ".." not in made
    assert not made.startswith(("-", "."))
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")
