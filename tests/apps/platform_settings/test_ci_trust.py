"""Trust rules in the settings: what one must say, and what is refused with its place."""

from __future__ import annotations

import re
from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.platform_settings.api import settings_history
from apps.platform_settings.domain.document import SettingsInvalid, interpret, read_file
from apps.platform_settings.domain.fields import SettingsContext
from apps.platform_settings.domain.keys import CI_TRUST
from apps.platform_settings.domain.wire import node_of
from apps.platform_settings.services.effective import ci_trust
from tests.apps.platform_settings.documents import PATH, admin_client, document, put, viewer_client
from tests.support.guides import GUIDES
from tests.support.people import somebody

RULE: dict[str, Any] = {
    "name": "shop-main",
    "issuer": "https://token.actions.githubusercontent.com",
    "audience": "https://partita.example",
    "repositories": ["acme/shop"],
    "branches": ["main"],
    "workspace": "acme",
    "suites": ["shop"],
}


def faults_of(**changes: Any) -> dict[str, str]:
    """Return the faults of a rule by pointer; a change to None leaves a key out."""
    rule = {name: value for name, value in (RULE | changes).items() if value is not None}
    read, faults = interpret(node_of({"ciTrust": [rule]}), "", SettingsContext())
    assert len(read.ci_trust) == (not faults), "a rule with a fault lets nobody in"
    return {fault.pointer.removeprefix("/ciTrust/0/"): fault.detail for fault in faults}


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"name": None}, "name", "is required"),
        ({"name": "a b"}, "name", "may have letters"),
        ({"issuer": None}, "issuer", "is required"),
        ({"issuer": "http://ci.example"}, "issuer", "must be an https address"),
        ({"issuer": "https://me:pw@ci.example"}, "issuer", "must not hold a user name"),
        ({"issuer": "https://ci.example?x"}, "issuer", "must not have a query"),
        ({"audience": None}, "audience", "is required"),
        ({"workspace": None}, "workspace", "is required"),
        ({"role": "admin"}, "role", "must be one of viewer, runner"),
        ({"suites": None}, "suites", "* stands for all of them"),
        ({"suites": ["a*b"]}, "suites/0", "must be the id of a suite"),
        ({"repositories": None}, "repositories", "else every account of the issuer gets in"),
        ({"repositories": ["*/shop"]}, "repositories/0", "must begin with an owner"),
        ({"repositories": ["*/*"]}, "repositories/0", "must begin with an owner"),
        ({"repositories": ["**"]}, "repositories/0", "must begin with an owner"),
        ({"repositories": ["acme/shop", ""]}, "repositories/1", "must begin with an owner"),
        ({"repositories": "acme/shop"}, "repositories", "must be a list"),
        ({"branches": "main"}, "branches", "must be a list"),
        ({"branches": [""]}, "branches/0", "must not have an empty text"),
        ({"branches": ["${PARTITA_CONFIG_X}"]}, "branches/0", "is not in the environment"),
        ({"branchs": ["main"]}, "branchs", "is not a known key"),
        ({"claims": ["actor"]}, "claims/0", "must be name=pattern"),
        (
            {"repositories": None, "claims": ["event_name=push", "sub=repo:**"]},
            "repositories",
            "or a claim that names an owner",
        ),
        ({"expiresMinutes": 61}, "expiresMinutes", "must be from 1 to 60"),
        ({"expiresMinutes": 0}, "expiresMinutes", "must be from 1 to 60"),
        ({"allowForks": "yes"}, "allowForks", "must be true or false"),
    ],
)
def test_a_rule_that_says_too_little_is_refused_at_its_key(changes, key, words):
    assert words in faults_of(**changes)[key]


def test_a_rule_may_name_its_jobs_by_claims_and_loopback_without_tls():
    assert faults_of() == {}
    assert faults_of(repositories=None, claims=["sub=project-7:*"]) == {}
    assert faults_of(issuer="http://localhost:9000") == {}


def test_two_rules_of_one_name_are_refused_with_their_place():
    text = "ciTrust:\n" + 2 * (
        "- {name: a, issuer: 'https://x.example', audience: b, repositories: [a/b],"
        " workspace: w, suites: ['*']}\n"
    )

    with pytest.raises(SettingsInvalid, match=r"configuration.yaml:3:3: name is used twice"):
        read_file(text, "configuration.yaml", SettingsContext())


def test_the_rule_of_the_guide_is_one():
    text = (GUIDES / "ci.md").read_text()
    (rule,) = re.findall(r"^```yaml\n(ciTrust:.*?)^```$", text, re.S | re.M)

    read, _ = read_file(rule, "configuration.yaml", SettingsContext())

    assert read.ci_trust[0].suites == ("shop", "shop-*")
    named = set(re.findall(r"`(\w+)`(?:, `(\w+)`)? \|", text))
    words = {word for pair in named for word in pair} | {"name", "workspace", "suites"}
    assert words >= {key.name for key in CI_TRUST.keys}


@pytest.fixture
def root(settings, tmp_path, db: None) -> APIClient:
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    return admin_client()


def test_a_rule_is_stored_written_into_the_file_and_in_force(root, settings):
    settings.PLATFORM_SETTINGS_FILE.write_text(
        "# ours\nagents:\n- {agentId: local, name: Local, type: local}\n"
    )

    answer = put(root, document(ciTrust=[RULE]))

    assert answer.status_code == 200, answer.content
    (stored,) = answer.json()["ciTrust"]
    assert stored == RULE | {
        "tags": [],
        "environments": [],
        "claims": [],
        "role": "runner",
        "allowForks": False,
        "expiresMinutes": 60,
        "allowLocalNetwork": False,
    }
    text = settings.PLATFORM_SETTINGS_FILE.read_text()
    assert text.startswith("# ours\n")
    assert "repositories: [acme/shop]" in text
    (rule,) = ci_trust()
    assert (rule.name, rule.branches, rule.expires_minutes) == ("shop-main", ("main",), 60)


def test_others_than_administrators_do_not_see_whom_the_installation_trusts(root):
    put(root, document(ciTrust=[RULE]))

    viewer = viewer_client()
    assert viewer.get(PATH).json()["ciTrust"] == []
    history = str(settings_history(somebody(), 9))
    assert "ciTrust[shop-main].repositories" in history
    assert "acme/shop" not in history
