"""Which CI jobs a trust rule lets in."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.ci_trust import (
    TrustMiss,
    TrustRule,
    claim_rule,
    find_rule,
    is_bound,
    matches_pattern,
    reaches_suite,
    read_job,
    repository_rule,
    suite_rule,
)
from tests.support.ci_issuer import AUDIENCE, github_claims, gitlab_claims

ISSUER = "https://ci.example"
OF_MAIN = "github: acme/shop@refs/heads/main by workflow"


def rule(**facts: Any) -> TrustRule:
    known: dict[str, Any] = {
        "name": "main",
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "repositories": ("acme/shop",),
        "workspace": "acme",
        "suites": ("shop",),
    }
    return TrustRule(**known | facts)


def decide(claims: dict[str, Any], *rules: TrustRule, **changes: Any) -> str:
    """Return the rule that lets the job in, or the claim that keeps it out."""
    job = read_job({"iss": ISSUER, "aud": AUDIENCE, **claims, **changes})
    found = find_rule(rules or (rule(),), job)
    return found.claim if isinstance(found, TrustMiss) else found.name


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("acme/shop", "acme/shop", True),
        ("acme/shop", "acme/shop2", False),
        ("acme/shop", "Acme/shop", False),
        ("acme/*", "acme/shop", True),
        ("acme/*", "acme/tools/shop", False),
        ("acme/**", "acme/tools/shop", True),
        ("acme/*", "acmee/shop", False),
        ("release/*", "release/", True),
        ("v*.*", "v1.2", True),
        ("v*.*", "v12", False),
        ("*", "", True),
        ("", "x", False),
        ("main", "main\n", False),
        ("a.c", "abc", False),
    ],
)
def test_a_pattern_fits_whole_texts_and_a_star_no_slash(pattern, text, fits):
    assert matches_pattern(pattern, text) is fits


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_pattern_without_stars_fits_itself_alone(pattern, text):
    if "*" not in pattern:
        assert matches_pattern(pattern, pattern)
        assert matches_pattern(pattern, text) is (pattern == text)


def test_a_pattern_of_many_stars_takes_no_long_time():
    begun = time.monotonic()

    assert not matches_pattern("*a" * 40 + "b", "a" * 1000)
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    ("changes", "decision"),
    [
        ({}, "main"),
        ({"repository": "acme/other"}, "repository"),
        ({"repository": None}, "repository"),
        ({"repository": "evil/shop"}, "repository"),
        ({"aud": "https://elsewhere.example"}, "aud"),
        ({"aud": [AUDIENCE]}, "main"),
        ({"aud": [AUDIENCE, "https://elsewhere.example"]}, "aud"),
        ({"aud": None}, "aud"),
    ],
)
def test_a_job_must_fit_audience_and_repository(changes, decision):
    assert decide(github_claims(), **changes) == decision


@pytest.mark.parametrize(
    ("claims", "decision"),
    [
        (github_claims(), "main"),
        (github_claims(ref="refs/heads/feature"), "ref"),
        (github_claims(ref="refs/tags/v1.2", ref_type="tag"), "main"),
        (github_claims(ref="refs/tags/main", ref_type="tag"), "ref"),
        (github_claims(ref="refs/heads/v1.2"), "ref"),
        (github_claims(ref="main", ref_type="tag"), "ref"),
        (github_claims(ref=None), "ref"),
        (gitlab_claims(project_path="acme/shop"), "main"),
        (gitlab_claims(project_path="acme/shop", ref="feature"), "ref"),
        (gitlab_claims(project_path="acme/shop", ref="v2", ref_type="tag"), "main"),
    ],
)
def test_a_branch_is_no_tag_of_its_name(claims, decision):
    assert decide(claims, rule(branches=("main",), tags=("v*",))) == decision


@pytest.mark.parametrize(
    "claims",
    [
        github_claims(event_name="pull_request", ref="refs/pull/7/merge"),
        github_claims(event_name="pull_request_target"),
        github_claims(event_name="issue_comment"),
        github_claims(event_name="workflow_run"),
        github_claims(event_name=None, ref="refs/pull/7/merge"),
        gitlab_claims(project_path="acme/shop", pipeline_source="merge_request_event"),
        gitlab_claims(project_path="acme/shop", ref_path="refs/merge-requests/7/head"),
        github_claims(event_name="pull_request", head_repository="mallory/shop"),
    ],
)
def test_what_may_be_a_fork_is_refused_unless_the_rule_says_so(claims):
    assert decide(claims) == "fork"
    assert decide(claims, rule(allow_forks=True)) == "main"
    # a fork names its branch as it likes
    assert decide(claims, rule(allow_forks=True, branches=("main", "**"))) == "ref"


def test_a_pull_request_whose_head_is_known_to_be_here_is_none_of_a_fork():
    claims = github_claims(event_name="pull_request", head_repository="acme/shop")

    assert decide(claims) == "main"


def test_other_claims_and_the_environment_must_fit_too():
    strict = rule(
        environments=("production",),
        claims=("runner_environment=self-*", "actor=ada", "actor=grace", "protected=true"),
    )
    claims = github_claims(
        environment="production", runner_environment="self-hosted", actor="grace", protected=True
    )

    assert decide(claims, strict) == "main"
    assert decide(claims, strict, environment="staging") == "environment"
    assert decide(claims, strict, environment=None) == "environment"
    assert decide(claims, strict, actor="mallory") == "actor"
    assert decide(claims, strict, protected=False) == "protected"
    assert decide(claims, strict, runner_environment=["self-hosted"]) == "runner_environment"


def test_the_first_rule_that_fits_counts_else_the_nearest_is_named():
    near, far = rule(name="near", branches=("release/*",)), rule(name="far", audience="x")
    job = read_job({"iss": ISSUER, "aud": AUDIENCE, **github_claims()})

    assert decide(github_claims(), far, rule(name="a"), rule(name="b")) == "a"
    miss = find_rule((rule(name="far", audience="x", repositories=("b/b",)), near), job)
    assert str(miss) == 'rule near: ref "refs/heads/main" is none of release/*'
    assert str(find_rule((), job)) == "no rule trusts this issuer"


@pytest.mark.parametrize(
    ("claims", "label"),
    [
        (github_claims(), f"{OF_MAIN} CI"),
        (gitlab_claims(), "gitlab: acme/tools/shop@main by job 4711"),
        ({"sub": "job-7"}, "ci.example: job-7"),
        (github_claims(workflow="a\x1b[31m\nb"), f"{OF_MAIN} a\ufffd[31m\ufffdb"),
        (github_claims(workflow="w" * 900), f"{OF_MAIN} {'w' * 254}"),
    ],
)
def test_a_job_is_named_in_words(claims, label):
    assert read_job({"iss": ISSUER, **claims}).label == label


@pytest.mark.parametrize(
    "text", ["*", "**", "*/*", "**/*", "*/shop", "acme", "acme/", "/shop", "a*/shop", ""]
)
def test_a_repository_names_whose_it_is(text):
    assert "owner or group" in repository_rule(text)
    assert repository_rule("acme/*") == repository_rule("acme/tools/**") == ""


def test_claims_and_suites_have_a_form():
    assert claim_rule("oidc.circleci.com/project-id=5f*") == ""
    assert all("name=pattern" in claim_rule(each) for each in ("actor", "actor=", "=x"))
    assert suite_rule("shop") == suite_rule("team-*") == suite_rule("*") == ""
    assert all(suite_rule(each) for each in ("a*b", "", "**"))
    assert reaches_suite(("shop", "team-*"), "team-a")
    assert not reaches_suite(("shop", "team-*"), "shop2")
    assert not reaches_suite((), "shop")


@pytest.mark.parametrize(
    ("claims", "is_said"),
    [
        (["sub=project-7:*"], True),
        (["sub=repo:acme/**"], True),
        (["sub=repo:acme/shop:ref:refs/heads/main"], True),
        (["sub=project_path:acme/tools/**"], True),
        (["sub=repository_owner_id:7:**"], True),
        (["sub=org/5f1c/project/**"], True),
        (["sub=https://jenkins.example/job/**"], True),
        (["repository_owner=acme"], True),
        (["repository_owner_id=7", "event_name=push"], True),
        (["repository=acme/*"], True),
        (["namespace_path=acme/**", "namespace_path=tools"], True),
        (["project_id=7"], True),
        (["organization_slug=acme"], True),
        (["oidc.circleci.com/project-id=5f1c"], True),
        ([], False),
        (["sub=*"], False),
        (["sub=**"], False),
        (["sub=*", "event_name=push"], False),
        (["sub=repo:acme/**", "sub=**"], False),
        (["sub=repo:**"], False),
        (["sub=repo:*/shop:**"], False),
        (["sub=repo:a**"], False),
        (["sub=repo:"], False),
        (["sub=repo**"], False),
        (["sub=project_path:**"], False),
        (["sub=project_path:*/shop:**"], False),
        (["sub=organization:*:pipeline:ci:**"], False),
        (["sub=https://**"], False),
        (["sub=event_name:push"], False),
        (["sub=runner_environment:github-hosted:**"], False),
        (["sub=job_workflow_ref:acme/ci/**"], False),
        (["event_name=push"], False),
        (["runner_environment=github-hosted"], False),
        (["actor=ada"], False),
        (["ref=refs/heads/main"], False),
        (["repository=*/*"], False),
        (["repository=**"], False),
        (["repository_owner=*"], False),
        (["repository_owner=acme*"], False),
        (["namespace_path=a**"], False),
        (["oidc.circleci.com/project-id=*"], False),
    ],
)
def test_a_rule_must_say_whose_jobs_it_means(claims: list[str], is_said: bool):
    assert is_bound(rule(repositories=(), claims=tuple(claims), branches=("main",))) is is_said
    assert is_bound(rule(claims=tuple(claims)))


@pytest.mark.parametrize("patterns", [("*/*",), ("**",), ("acme/shop", "*/shop")])
def test_repositories_of_anybody_bind_no_rule(patterns: tuple[str, ...]):
    assert not is_bound(rule(repositories=patterns, claims=("repository_owner=acme",)))


@given(
    st.dictionaries(
        st.text(max_size=9), st.none() | st.text() | st.integers() | st.lists(st.text())
    )
)
def test_no_claims_make_an_error(claims):
    """Invariant 33."""
    assert isinstance(find_rule((rule(),), read_job(claims)), TrustMiss)
