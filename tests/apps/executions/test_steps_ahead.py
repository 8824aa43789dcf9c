"""Hints of the steps that may come next, in the answer to a claim (decision 0060)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apps.executions import api
from apps.executions.models import Step
from apps.platform_settings.api import backends
from tests.apps.executions.runs import Worker, booted_run, node
from tests.support.people import somebody


def claimed(worker: Worker, *, ahead: int = 2, limit: int = 100) -> dict[str, Any]:
    """Return what the worker claims: step id → spec."""
    supervisor = replace(worker.supervisor, starts_ahead=ahead)
    specs = api.record_reports(supervisor, claims=limit).claimed
    worker.jobs.update({spec["node"]["id"]: dict(spec) for spec in specs})
    return {spec["node"]["id"]: spec for spec in specs}


def hinted(specs: dict[str, Any]) -> list[str]:
    return [each["node"]["id"] for spec in specs.values() for each in spec.get("ahead", ())]


def chain() -> list[dict[str, Any]]:
    return [node("a"), node("b", after=["a"]), node("c", after=["b"]), node("d", after=["c"])]


def test_a_hint_is_the_spec_that_the_claim_then_answers() -> None:
    booted_run(*chain())
    worker = Worker()

    (first,) = claimed(worker).values()
    worker.end("a")
    (second,) = claimed(worker).values()

    assert [each["node"]["id"] for each in first["ahead"]] == ["b", "c"]
    assert first["ahead"][0] == {key: second[key] for key in second if key != "ahead"}
    assert hinted({"b": second}) == ["c", "d"]


def test_a_hint_changes_nothing() -> None:
    run = booted_run(*chain())

    claimed(Worker())

    assert run.statuses == {"a": "running", "b": "pending", "c": "pending", "d": "pending"}
    rows = Step.objects.filter(execution_id=run.pk).exclude(step_id="a")
    assert set(rows.values_list("agent_id", "lease_expires_at", "attempt")) == {("", None, 0)}


def test_who_does_not_ask_is_told_nothing() -> None:
    booted_run(*chain())

    assert hinted(claimed(Worker(), ahead=0)) == []


def test_steps_that_are_claimed_together_share_one_hint() -> None:
    booted_run(node("a"), node("b"), node("c", after=["a", "b"]))

    specs = claimed(Worker())

    assert specs.keys() == {"a", "b"}
    assert hinted(specs) == ["c"]


def test_nothing_starts_ahead_while_others_wait_for_a_place(settings: Any, tmp_path: Path) -> None:
    settings.PLATFORM_SETTINGS_FILE = path = tmp_path / "configuration.yaml"
    path.write_text(
        "agents: [{agentId: local-docker, name: Local, type: local, default: true, "
        "maxConcurrentSteps: 1}]\n"
    )
    assert backends()
    worker = Worker()
    booted_run(*chain(), principal=somebody())
    booted_run(node("other"), principal=somebody())

    alone = claimed(worker)
    (name,) = alone
    worker.end(name)
    after = claimed(worker)

    assert (len(alone), hinted(alone)) == (1, [])  # the other one waits
    assert len(after) == 1


@pytest.mark.parametrize("kind", ["service", "log"])
def test_only_tasks_and_tests_start_ahead(kind: str) -> None:
    more = {"message": "hello"} if kind == "log" else {}
    booted_run(node("a"), node("b", after=["a"], kind=kind, **more))

    assert hinted(claimed(Worker())) == []
