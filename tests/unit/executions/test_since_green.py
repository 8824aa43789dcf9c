from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from apps.executions.domain.since_green import ComparedRun, RunDifference, run_differences

GREEN = ComparedRun(
    content_digest="sha256:1",
    profile="ci.yaml",
    backend="Local Docker",
    author="Ada",
    commit="abc",
    branch="main",
    steps=frozenset({"db", "seed", "check"}),
    imports={"pay": "sha256:7"},
    env={("profile", "REGION"): "h1", ("seed", "ROWS"): "h2"},
    images={"db": "redis:7", "seed": "busybox:1.36"},
    took_ms={"seed": 4_000, "check": 900},
)


def found(**changes: Any) -> list[RunDifference]:
    return run_differences(GREEN, replace(GREEN, **changes))


def test_equal_runs_have_no_differences():
    assert found() == []


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        (
            {"content_digest": "sha256:2"},
            {"kind": "content", "name": "", "change": "changed",
             "before": "sha256:1", "after": "sha256:2"},
        ),
        (
            {"imports": {"pay": "sha256:8"}},
            {"kind": "import", "name": "pay", "change": "changed",
             "before": "sha256:7", "after": "sha256:8"},
        ),
        (
            {"imports": {}},
            {"kind": "import", "name": "pay", "change": "removed", "before": "sha256:7"},
        ),
        (
            {"profile": ""},
            {"kind": "profile", "name": "", "change": "removed", "before": "ci.yaml"},
        ),
        (
            {"env": {**GREEN.env, ("profile", "REGION"): "h9"}},
            {"kind": "env", "name": "REGION", "change": "changed", "where": "profile"},
        ),
        (
            {"env": {("profile", "REGION"): "h1"}},
            {"kind": "env", "name": "ROWS", "change": "removed", "where": "seed"},
        ),
        (
            {"env": {**GREEN.env, ("db", "NEW"): "h1"}},
            {"kind": "env", "name": "NEW", "change": "added", "where": "db"},
        ),
        (
            {"images": {**GREEN.images, "db": "redis:8"}},
            {"kind": "image", "name": "db", "change": "changed",
             "before": "redis:7", "after": "redis:8"},
        ),
        (
            {"took_ms": {"seed": 6_001, "check": 900}},
            {"kind": "duration", "name": "seed", "change": "changed",
             "beforeMs": 4_000, "afterMs": 6_001},
        ),
        (
            {"steps": GREEN.steps - {"db"}},
            {"kind": "step", "name": "db", "change": "removed"},
        ),
        (
            {"commit": "def"},
            {"kind": "commit", "name": "", "change": "changed", "before": "abc", "after": "def"},
        ),
    ],
)  # fmt: skip
def test_one_change_is_one_difference(changes: dict[str, Any], difference: dict[str, Any]):
    if "steps" in changes:  # its image goes with it, which is not said twice
        changes = changes | {"images": {"seed": "busybox:1.36"}}
    assert found(**changes) == [difference]


@pytest.mark.parametrize(
    ("before", "after", "is_notable"),
    [
        (4_000, 6_000, False),  # just the factor
        (4_000, 6_001, True),
        (6_001, 4_000, True),  # faster, too
        (100, 1_000, False),  # much slower, but within a second
        (100, 1_101, True),
        (0, 1_000, False),
        (0, 1_001, True),
        (10_000, 14_000, False),  # four seconds, but not by the factor
    ],
)
def test_a_duration_counts_from_a_factor_and_a_second_on(before, after, is_notable):
    assert bool(run_differences(
        ComparedRun(took_ms={"a": before}), ComparedRun(took_ms={"a": after})
    )) is is_notable  # fmt: skip


def test_the_durations_of_steps_that_only_one_run_has_are_not_compared():
    assert run_differences(ComparedRun(took_ms={"a": 1}), ComparedRun(took_ms={"b": 9_999})) == []


def test_no_field_can_hold_the_value_of_a_variable():
    """What is compared has hashes alone, and what is answered not even these."""
    kinds = {each.name for each in fields(ComparedRun)}
    assert "env" in kinds
    for difference in found(env={("profile", "REGION"): "h9"}):
        assert "before" not in difference
        assert "after" not in difference
