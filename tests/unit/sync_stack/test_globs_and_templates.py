"""Patterns and templates of the sync stack."""

from __future__ import annotations

import pytest

from kernel.durations import parse_period_s
from sync_stack.core.bundle.diagnostics import distance, nearest
from sync_stack.core.bundle.urls import is_inner
from sync_stack.core.globs import BadGlob, check_glob, matches
from sync_stack.core.templates import BadTemplate, names_in, render
from sync_stack.sinks.mongo import password_in


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("acme/*", "acme/shop", True),
        ("acme/*", "acme/group/shop", False),
        ("acme/**", "acme/group/shop", True),
        ("**", "acme/shop", True),
        ("*/shop", "acme/shop", True),
        ("acme/sho?", "acme/shop", True),
        ("acme?shop", "acme/shop", False),
        ("conf/**/*.yaml", "conf/a.yaml", True),
        ("conf/**/*.yaml", "conf/a/b/c.yaml", True),
        ("a.b", "axb", False),
        ("release-(1)", "release-(1)", True),
        ("main", "main\n", False),
    ],
)
def test_wildcards_stop_at_a_slash_unless_doubled(pattern, text, fits):
    assert matches(pattern, text) is fits


def test_repositories_match_in_any_case():
    assert matches("Acme/*", "acme/Shop", ignore_case=True)
    assert not matches("Acme/*", "acme/Shop")


@pytest.mark.parametrize("pattern", ["", "a b", "a\n", "***", "[ab]", "*a" * 17, "a" * 513])
def test_what_is_no_pattern_is_refused(pattern):
    with pytest.raises(BadGlob):
        check_glob(pattern)


def test_templates_replace_names_once_and_nothing_else():
    """Sync invariant 29: a value that looks like a template stays as it is."""
    values = {"env": "{repo}", "repo": "shop"}

    assert render("{env}-{{{repo}}}-{{x}}", values) == "{repo}-{shop}-{x}"
    assert names_in("{env}{{tenant}}") == {"env"}


@pytest.mark.parametrize("text", ["{", "a}b", "{env", "{x.__class__}", "{env!r}", "{0}", "{ENV}"])
def test_other_braces_are_refused(text):
    with pytest.raises(BadTemplate):
        names_in(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("1h30m", 5400), ("7d", 604_800), ("30", 30), ("0", 0)]
)
def test_periods_have_days_and_may_be_zero(text, seconds):
    assert parse_period_s(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "1.5", "1w", "s", "5 m", "9" * 13, "9" * 13 + "d", "٣"])
def test_what_is_no_period_is_refused(text):
    with pytest.raises(ValueError, match="duration"):
        parse_period_s(text)


@pytest.mark.parametrize(
    ("left", "right", "edits"),
    [("redis", "redis", 0), ("redi", "redis", 1), ("redsi", "redis", 2), ("mongo", "redis", 3)],
)
def test_edit_distance(left, right, edits):
    assert distance(left, right) == edits


def test_the_nearest_name_is_within_two_edits():
    assert nearest("Rediss", ["mongo", "redis"]) == "redis"
    assert nearest("postgres", ["mongo", "redis"]) == ""


@pytest.mark.parametrize(
    ("connection", "password"),
    [
        ("mongodb://u:p%40ss@h/db", "p@ss"),
        ("mongodb://h/db", ""),
        ("mongodb://u@h", ""),
        ("redis://:pw@h:1/0?x=@", "pw"),
    ],
)
def test_passwords_inside_connection_strings_are_found(connection, password):
    assert password_in(connection) == password


@pytest.mark.parametrize(
    ("host", "inner"),
    [
        ("8.8.8.8", False),
        ("github.com", False),
        ("169.254.169.254", False),
        ("::ffff:10.0.0.1", True),
        ("::ffff:8.8.8.8", False),
        ("gitea", True),
    ],
)
def test_inner_hosts(host, inner):
    assert is_inner(host) is inner
