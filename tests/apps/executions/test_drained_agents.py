"""Agents that an administrator drains: they finish their runs, and others take the new ones."""

from __future__ import annotations

import pytest

from apps.agents.api import list_agents
from apps.agents.domain.availability import is_available
from apps.agents.services import drain, resume
from apps.platform_settings.api import backends
from tests.apps.executions.runs import Worker, booted_run, node


@pytest.mark.store
def test_a_drained_agent_finishes_its_run_and_leaves_new_ones_to_another(worker: Worker):
    begun = booted_run(node("a"), node("b", after=["a"]))
    assert worker.claim() == ["a"]
    drain(worker.agent_id)
    for run in range(5):  # 20 steps, more than one search reads, and older than b
        booted_run(*[node(f"new-{run}-{step}") for step in range(4)])

    worker.end("a")
    assert worker.claim(1) == ["b"]
    worker.end("b")

    assert begun.status == "Healthy"
    assert worker.claim() == []
    assert len(Worker("runner-2").claim()) == 20


@pytest.mark.store
def test_new_runs_wait_until_the_only_agent_is_resumed(worker: Worker):
    drain(worker.agent_id)
    booted_run(node("a"))
    assert worker.claim() == []

    resume(worker.agent_id)

    assert worker.claim() == ["a"]


@pytest.mark.store
def test_a_restart_does_not_end_the_drain(worker: Worker):
    drain(worker.agent_id)
    booted_run(node("a"))

    assert worker.restarted().claim() == []


def test_backends_of_drained_agents_alone_are_not_available(worker: Worker):
    (local,) = [each for each in backends() if each.backend_id == "local-docker"]
    assert is_available(local, list_agents())

    drain(worker.agent_id)
    assert not is_available(local, list_agents())

    Worker("runner-2")
    assert is_available(local, list_agents())
