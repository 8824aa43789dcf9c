"""What a new lock changes, before it is written (reference: control-plane 8)."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from django.core.management import call_command

from apps.suites import api, selectors
from apps.suites.dependencies.locked_contents import KEPT
from apps.suites.domain.differences import LockedState, difference
from apps.suites.models import LockedContent

CHILD = """
task.run(name = "keep", image = "a:1", env = {"LOG": "info"})
task.run(name = "old", image = "a:1")
"""
NEW = """
task.run(name = "keep", image = "a:2", env = {"LOG": "debug"}, retries = 2)
task.run(name = "new", image = "a:1")
"""
OUTER = {
    "suite.star": 'suite.run(name = "c", ref = "child")\n',
    "dependencies.yaml": "dependencies: {child: child}",
}


def typed(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        call_command("suite", *words)
    return int(ended.value.code or 0)


@pytest.fixture
def outer(workspace):
    workspace.add("child", {"suite.star": CHILD, "api/a.yaml": "openapi: 3.0.0"})
    workspace.add("outer", OUTER)
    assert typed("lock", "outer") == 0
    return workspace


def test_a_change_of_an_imported_suite_is_compared_with_what_the_lock_pins(outer):
    outer.add("child", {"suite.star": NEW, "api/a.yaml": "openapi: 3.1.0"})

    found = api.lock_difference("outer")

    assert not found.problem
    assert found.difference["added"] == ["c/new"]
    assert found.difference["removed"] == ["c/old"]
    assert [each["name"] for each in found.difference["images"]] == ["c/keep"]
    assert [each["name"] for each in found.difference["contracts"]] == ["c/api/a.yaml"]


@pytest.mark.slow
def test_contents_that_locks_pinned_are_kept_for_a_while(workspace):
    workspace.add("outer", OUTER)
    for n in range(KEPT + 2):
        workspace.add("child", CHILD + f"# {n}")
        assert typed("lock", "outer") == 0

    assert LockedContent.objects.filter(suite_id="child").count() == KEPT


def test_an_earlier_content_that_is_gone_is_named(outer):
    LockedContent.objects.all().delete()
    outer.add("child", {"suite.star": NEW, "api/a.yaml": "openapi: 3.1.0"})

    found = api.lock_difference("outer")

    assert "pinned to" in found.problem
    assert found.difference["added"] == ["c/keep", "c/new"]


def test_nodes_images_env_and_contracts_are_compared(outer):
    outer.add("free", OUTER)  # the same import without a lock
    before = selectors.resolve("free").topology
    outer.add("child", NEW)
    after = selectors.resolve("free").topology

    found = difference(
        LockedState(topology=cast("Any", before), contracts={"c/api/a.yaml": "1"}),
        LockedState(
            topology=cast("Any", after), contracts={"c/api/a.yaml": "2", "c/api/b.yaml": "3"}
        ),
    )

    assert found == {
        "added": ["c/new"],
        "removed": ["c/old"],
        "changed": [{"id": "c/keep", "members": ["retries"]}],
        "images": [{"name": "c/keep", "before": "a:1", "after": "a:2"}],
        "env": [{"id": "c/keep", "changes": [{"name": "LOG", "before": "info", "after": "debug"}]}],
        "contracts": [
            {"name": "c/api/a.yaml", "before": "1", "after": "2"},
            {"name": "c/api/b.yaml", "before": "", "after": "3"},
        ],
    }


def test_nothing_changes_under_a_current_lock(outer, capsys):
    found = api.lock_difference("outer")

    assert found.lock.is_current
    assert not any(found.difference.values())
    capsys.readouterr()
    assert typed("lock", "--check", "outer", "-o", "json") == 0
    (shown,) = json.loads(capsys.readouterr().out)["suites"]
    assert shown["current"]
    assert shown["difference"]["added"] == []
