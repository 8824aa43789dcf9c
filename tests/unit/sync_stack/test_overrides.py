"""`partita.json` of a repository: what it may say, and what it never may."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sync_stack.core.bundle.file_maps import FileEnvironment
from sync_stack.core.bundle.rules import Prune, Rule, SyncMode, Variable, VariableForm
from sync_stack.core.overrides import Overridden, apply_overrides

RULE = Rule(
    name="shop",
    platform="github",
    datasource="mongo",
    segment="mongo",
    repositories=("acme/shop",),
    file_name="app.yaml",
    allow_overrides=True,
)


def overridden(given: Any, rule: Rule = RULE) -> Overridden:
    return apply_overrides(rule, json.dumps(given).encode())


def test_without_a_file_the_central_rule_holds() -> None:
    assert apply_overrides(RULE, None) == Overridden(rule=RULE)


def test_a_repository_may_set_what_concerns_its_files() -> None:
    made = overridden(
        {
            "branch_map": {"main": "production"},
            "env_as_branch": True,
            "env_as_pr": True,
            "env_as_tags": True,
            "file_path_map": {"conf/*.yaml": "staging"},
            "root_key": "app",
            "sync_mode": "sync_mode_git_upsert_all",
            "variables_map": {"A": "a.b", "B": {"from": "b"}, "C": {"literal": "c"}},
        }
    )

    assert made.ignored == ()
    assert made.rule == replace(
        RULE,
        branch_map={"main": "production"},
        env_as_branch=True,
        env_as_pr=True,
        env_as_tags=True,
        file_name="",
        file_path_map=(FileEnvironment(path="conf/*.yaml", env="staging"),),
        root_key="app",
        sync_mode=SyncMode.GIT_UPSERT_ALL,
        variables_map={
            "A": Variable(text="a.b"),
            "B": Variable(text="b", form=VariableForm.FROM),
            "C": Variable(text="c", form=VariableForm.LITERAL),
        },
    )


def test_other_fields_are_ignored_and_named() -> None:
    made = overridden({"tenant": "x", "destination_template": "y", "root_key": "app", "self": 1})

    assert made.rule == replace(RULE, root_key="app")
    assert made.ignored == ("destination_template", "self", "tenant")


@pytest.mark.parametrize(
    ("allowed", "ignored"),
    [(True, ()), (False, ("dry_run", "root_key")), (("root_key",), ("dry_run",))],
)
def test_allow_overrides_says_which_fields_count(
    allowed: bool | tuple[str, ...], ignored: tuple[str, ...]
) -> None:
    made = overridden({"root_key": "a", "dry_run": True}, replace(RULE, allow_overrides=allowed))

    assert made.ignored == ignored


@pytest.mark.parametrize("field", ["strict_validation", "dry_run"])
def test_validation_and_dry_run_only_become_stricter(field: str) -> None:
    """Sync invariant 30."""
    strict = replace(RULE, **{field: True})  # type: ignore[arg-type]

    assert getattr(overridden({field: True}).rule, field) is True
    assert overridden({field: False}, strict) == Overridden(rule=strict, ignored=(field,))
    assert overridden({field: False}) == Overridden(rule=RULE)


PRUNING = replace(RULE, prune=Prune(enabled=True, protection=("db.*",), max_delete_ratio=0.3))


@pytest.mark.parametrize(
    ("given", "prune"),
    [
        (False, replace(PRUNING.prune, enabled=False)),
        ({"enabled": False}, replace(PRUNING.prune, enabled=False)),
        ({"protection": ["x"]}, replace(PRUNING.prune, protection=("db.*", "x"))),
        ({"max_delete_ratio": 0.1}, replace(PRUNING.prune, max_delete_ratio=0.1)),
    ],
)
def test_prune_may_become_stricter(given: Any, prune: Prune) -> None:
    """Sync invariant 30: what the repository protects comes beside what the rule protects."""
    made = overridden({"prune": given}, PRUNING)

    assert (made.rule.prune, made.ignored) == (prune, ())


@pytest.mark.parametrize(
    ("rule", "given", "ignored"),
    [
        (RULE, True, "prune.enabled"),
        (PRUNING, {"max_delete_ratio": 0.9}, "prune.max_delete_ratio"),
        (PRUNING, {"allow_empty": True}, "prune.allow_empty"),
        (PRUNING, {"max_delete_floor": 1000}, "prune.max_delete_floor"),
        (PRUNING, {"protection": []}, None),
    ],
)
def test_prune_never_becomes_weaker(rule: Rule, given: Any, ignored: str | None) -> None:
    """Sync invariant 30."""
    made = overridden({"prune": given}, rule)

    assert made.rule == rule
    assert made.ignored == ((ignored,) if ignored else ())


def test_live_state_is_not_taken_by_a_rule_that_does_not_prune() -> None:
    """Sync invariant 30."""
    assert overridden({"sync_mode": "LIVE_STATE"}) == Overridden(rule=RULE, ignored=("sync_mode",))
    assert overridden({"sync_mode": "LIVE_STATE"}, PRUNING).rule.sync_mode is SyncMode.LIVE_STATE


def test_prune_turned_off_ends_live_state() -> None:
    live = replace(RULE, sync_mode=SyncMode.LIVE_STATE)
    made = overridden({"prune": False, "sync_mode": "LIVE_STATE"}, live)

    assert made.rule == replace(live, sync_mode=SyncMode.GIT_SMART_REPAIR)


@pytest.mark.parametrize(
    "given",
    [
        [], "x", None, {"root_key": 1}, {"dry_run": "yes"}, {"branch_map": {"main": "../x"}},
        {"branch_map": ["main"]}, {"branch_map": {"main": 1}}, {"file_name": "../secret"},
        {"file_name": "/etc/passwd"}, {"file_name": "a\\b"}, {"file_name": ""},
        {"file_path_map": {"../a": "x"}}, {"sync_mode": "ALWAYS"}, {"variables_map": {"A": 1}},
        {"variables_map": {"A": {"from": "b", "literal": "c"}}}, {"prune": "off"},
        {"variables_map": {"A": {"s3cret": "x"}}}, {"variables_map": {"A": {"auto": "s3cret"}}},
        {"prune": {"enabled": 1}}, {"prune": {"max_delete_ratio": -1}},
        {"prune": {"protection": "x"}}, {"file_name": "a", "file_path_map": {"a": "x"}},
    ],
)  # fmt: skip
def test_wrong_types_leave_the_central_rule_with_a_warning(given: Any) -> None:
    """Sync invariants 29 and 30."""
    made = overridden(given)

    assert made.rule == RULE
    assert made.warning.startswith("partita.json is not used: ")
    assert "s3cret" not in made.warning


@pytest.mark.parametrize(
    ("given", "named"),
    [({"enabled": 1}, "enabled"), ({"max_delete_ratio": 2}, "max_delete_ratio")],
)
def test_a_warning_names_the_member_of_prune(given: Any, named: str) -> None:
    assert overridden({"prune": given}).warning.endswith(f"at `$.prune.{named}`")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff", b'{"root_key": "a", "root_key": "b"}', b"[" * 70000, b" " * 65537 + b"{}"],
)
def test_unreadable_content_leaves_the_central_rule_with_a_warning(content: bytes) -> None:
    made = apply_overrides(RULE, content)

    assert (made.rule, bool(made.warning)) == (RULE, True)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(0, 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
PRUNES = st.booleans() | st.dictionaries(
    st.sampled_from(["enabled", "dry_run", "protection", "max_delete_ratio", "allow_empty"]),
    st.booleans() | st.floats(0, 1) | st.lists(st.text(min_size=1), max_size=2),
)


@given(
    given=st.fixed_dictionaries(
        {},
        optional={
            "prune": PRUNES,
            "strict_validation": JSON,
            "dry_run": JSON,
            "sync_mode": st.sampled_from([*SyncMode]) | JSON,
            "root_key": JSON,
        },
    ),
    rule=st.sampled_from([RULE, PRUNING, replace(RULE, strict_validation=True, dry_run=True)]),
)
def test_no_file_weakens_validation_or_guards(given: dict[str, Any], rule: Rule) -> None:
    """Sync invariant 30."""
    made = overridden(given, rule).rule

    assert made.strict_validation >= rule.strict_validation
    assert made.dry_run >= rule.dry_run
    assert made.prune.enabled <= rule.prune.enabled
    assert made.prune.max_delete_ratio <= rule.prune.max_delete_ratio
    assert set(made.prune.protection) >= set(rule.prune.protection)
    assert made.prune.allow_empty == rule.prune.allow_empty
    assert made.sync_mode is not SyncMode.LIVE_STATE or rule.prune.enabled
