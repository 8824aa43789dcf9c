"""What a repository's partita.json may change, and what it may not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sync_stack.core.bundle.model import Prune, Rule, SyncMode
from sync_stack.core.overrides import BadOverrides, Overridden, apply_overrides
from sync_stack.formats import formats


def rule(**fields: Any) -> Rule:
    known: dict[str, Any] = {
        "name": "shop",
        "platform": "github",
        "datasource": "redis",
        "segment": "redis",
        "repositories": ("acme/*",),
        "file_name": "app.yaml",
        "allow_overrides": True,
    }
    return Rule(**known | fields)


def applied(central: Rule, **document: Any) -> Overridden:
    tree = formats["json"].parse(json.dumps(document).encode(), file="partita.json")
    return apply_overrides(central, tree)


def test_what_the_rule_allows_takes_effect():
    found = applied(rule(), branch_map={"main": "live"}, sync_mode="full", root_key="").rule
    assert dict(found.branch_map) == {"main": "live"}
    assert (found.sync_mode, found.root_key) == (SyncMode.GIT_UPSERT_ALL, "")


def test_what_is_unknown_or_not_allowed_is_ignored_and_named():
    """Sync invariant 28: destination and tenant never come from the repository."""
    central = rule(allow_overrides=("root_key",))
    found = applied(central, root_key="x", branch_map={"main": "live"}, tenant="other")
    assert found.ignored == ("branch_map", "tenant")
    assert found.rule.tenant == "default"
    assert not found.rule.branch_map


def test_validation_and_guards_are_never_weakened():
    """Sync invariant 30."""
    prune = Prune(enabled=False, protection=("a.*",), max_delete_ratio=0.1)
    central = rule(strict_validation=True, dry_run=True, prune=prune)
    asked = {"enabled": True, "protection": ["b"], "max_delete_ratio": 0.9}
    found = applied(central, strict_validation=False, dry_run=False, prune=asked).rule
    assert found.strict_validation
    assert found.dry_run
    assert found.prune == Prune(enabled=False, protection=("a.*", "b"), max_delete_ratio=0.1)


def test_stricter_is_taken():
    found = applied(rule(prune=Prune(enabled=True)), prune=False, strict_validation=True).rule
    assert (found.prune.enabled, found.strict_validation) == (False, True)


@pytest.mark.parametrize(
    "document",
    [
        {"branch_map": {"main": "../x"}},
        {"branch_map": ["main"]},
        {"file_name": "../etc/passwd"},
        {"env_as_pr": "yes"},
        {"prune": {"allow_empty": True}},
        {"prune": {"max_delete_ratio": 7}},
        {"sync_mode": "everything"},
        {"variables_map": {"A": {"from": 1}}},
    ],
)
def test_wrong_types_and_values_refuse_the_whole_file(document):
    with pytest.raises(BadOverrides):
        applied(rule(), **document)
