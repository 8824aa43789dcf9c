"""partita.json of the default branch, through the whole sync."""

from __future__ import annotations

import json

import pytest

from sync_stack.orchestrator.models import LedgerTarget

pytestmark = pytest.mark.store


def test_the_default_branchs_file_counts_and_the_pushed_branchs_does_not(world):
    """Sync invariant 30."""
    world.with_rules(allow_overrides=True)
    central = json.dumps({"root_key": "service"})
    main = world.repository.commit({"partita.json": central, "app.yaml": "service: {a: 1}\nb: 2\n"})
    world.finish(world.push(main))
    assert world.values() == {"a": "1"}
    other = json.dumps({"root_key": ""})
    files = {"partita.json": other, "app.yaml": "service: {a: 3}\nb: 4\n"}
    world.finish(world.commit_and_push(files, branch="develop"))
    assert world.values("staging-shop") == {"a": "3"}
    unit = LedgerTarget.objects.get(env="staging")
    assert unit.commit != main


def test_a_file_that_is_wrong_leaves_the_central_rule_and_a_warning(world):
    world.with_rules(allow_overrides=True)
    task = world.finish(
        world.commit_and_push({"partita.json": '{"root_key": 1}', "app.yaml": "a: 1\n"})
    )
    assert (task.state, world.values()) == ("SUCCEEDED", {"a": "1"})
    assert "partita.json is not used" in task.result["targets"][0]["warnings"][0]


def test_a_rule_that_allows_nothing_does_not_read_it(world):
    files = {"partita.json": '{"root_key": "x"}', "app.yaml": "a: 1\n"}
    assert world.finish(world.commit_and_push(files)).state == "SUCCEEDED"
    assert world.values() == {"a": "1"}
