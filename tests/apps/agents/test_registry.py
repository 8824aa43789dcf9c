"""The registry of supervisors: credentials, heartbeats, who is there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.agents import api, models, services
from apps.agents.selectors import agents_ready
from kernel import clock

pytestmark = pytest.mark.django_db


def worker(
    agent_id: str = "edge", *, failing: tuple[str, ...] = (), **facts: Any
) -> api.Registered:
    """`failing`: the loops that its first heartbeat names; none when empty."""
    registration = api.Registration(
        **{"agent_id": agent_id, "incarnation": "1", "kind": "worker", **facts}
    )
    registered = api.register(registration)
    if failing:
        api.heartbeat(agent_id, failing_loops=failing)
    return registered


def silent_for(seconds: int, agent_id: str = "edge") -> None:
    models.Agent.objects.filter(agent_id=agent_id).update(
        last_heartbeat_at=clock.now() - timedelta(seconds=seconds)
    )


def test_blank_names_and_backends_default_to_the_id():
    agent = worker(name="  ").agent
    assert (agent.name, agent.backends) == ("edge", ("edge",))


def test_a_worker_is_known_by_its_token_and_only_the_newest():
    """Invariant 8: a job accepted without that agent's credential."""
    old = worker().agent_token
    new = worker().agent_token
    assert api.authenticate(old) is None
    assert api.authenticate("") is None
    found = api.authenticate(new)
    assert found is not None
    assert found.agent_id == "edge"


def test_tokens_are_stored_hashed():
    """Invariant 19."""
    token = worker().agent_token
    assert token not in str(models.Agent.objects.values())


def test_a_runner_needs_no_token():
    assert worker(kind="runner").agent_token == ""
    assert api.authenticate("") is None


def test_registering_again_keeps_the_first_time_and_replaces_the_rest():
    first = worker(labels={"zone": "eu"}).agent
    again = worker(incarnation="2", labels={}).agent
    assert again.registered_at == first.registered_at
    assert (again.incarnation, dict(again.labels)) == ("2", {})
    assert len(api.list_agents()) == 1


def test_an_agent_is_offline_after_thirty_seconds_of_silence():
    worker()
    silent_for(29)
    assert api.is_online("edge")
    silent_for(31)
    assert not api.is_online("edge")
    assert api.online_agents() == ()
    assert api.list_agents()[0].as_wire(clock.now())["status"] == "offline"


def test_heartbeats_and_lease_calls_show_that_it_lives():
    worker()
    silent_for(31)
    agent = api.heartbeat("edge", running_jobs=2, runtime_available=False, runs=["run-1"])
    assert (agent.running_jobs, agent.runtime_available, agent.runs) == (2, False, ("run-1",))
    silent_for(31)
    api.heard_of("edge", "1")
    assert api.is_online("edge")


def test_the_unknown_removed_and_replaced_must_register_again():
    with pytest.raises(api.AgentNotFound):
        api.heartbeat("nobody")
    worker(incarnation="2")
    with pytest.raises(api.AgentNotFound):
        api.heartbeat("edge", incarnation="1")
    assert api.remove("edge")
    assert not api.remove("edge")
    with pytest.raises(api.AgentNotFound):
        api.heartbeat("edge")


def test_a_removed_agent_is_nowhere_and_may_come_back():
    token = worker().agent_token
    api.remove("edge")
    assert api.authenticate(token) is None
    assert api.list_agents() == ()
    assert api.authenticate(worker().agent_token) is not None


def test_online_agents_are_found_by_backend():
    worker("a", backends=("one", "two"))
    worker("b", backends=("two",))
    assert [agent.agent_id for agent in api.online_agents("one")] == ["a"]
    assert [agent.agent_id for agent in api.online_agents("two")] == ["a", "b"]


@pytest.fixture
def backends(settings, tmp_path):
    """`backends("edge", …)` are those of the settings file, all for workers."""
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"

    def configured(*names: str) -> None:
        entries = [f"  - {{agentId: {name}, name: {name}, type: remote-agent}}" for name in names]
        local = "  - {agentId: local, name: Local, type: local}"
        text = "\n".join(["agents:", local, *entries, ""])
        settings.PLATFORM_SETTINGS_FILE.write_text(text)

    return configured


def test_readiness_of_agents_needs_a_worker_online_for_each_of_their_backends(backends):
    backends("edge", "far")
    worker("edge")
    worker("far")
    everybody = agents_ready()
    silent_for(31, "far")
    alone = agents_ready()

    assert (everybody.ready, everybody.detail) == (True, "2 workers online")
    assert (alone.ready, alone.detail) == (False, "no worker is online for far")


def test_without_a_backend_for_workers_their_readiness_is_disabled(backends):
    backends()

    assert agents_ready().disabled


def test_a_runner_does_not_count_as_a_worker(backends):
    backends("edge")
    worker("edge", kind="runner")

    assert not agents_ready().ready


def test_a_failing_loop_of_a_runner_or_worker_is_named_by_readiness(backends):
    """By the agent's id: the address at which it is called is not told."""
    backends("edge")
    worker("edge", host_url="https://edge.example:8091", failing=("orders", "samples"))
    worker("runner:vm", kind="runner", failing=("claims",))
    failing = agents_ready()
    for name in ("edge", "runner:vm"):
        api.heartbeat(name)
    cleared = agents_ready()

    assert (failing.ready, failing.disabled, failing.detail) == (
        False,
        False,
        "edge: loops orders, samples are failing; runner:vm: loop claims is failing",
    )
    assert (cleared.ready, cleared.detail) == (True, "1 worker online")


def test_a_failing_loop_is_named_though_no_backend_is_for_workers(backends):
    backends()
    worker("runner:vm", kind="runner", failing=("claims",))

    found = agents_ready()

    assert (found.ready, found.disabled) == (False, False)


def test_a_missing_worker_is_named_beside_a_failing_loop(backends):
    backends("edge")
    worker("runner:vm", kind="runner", failing=("claims",))

    assert (
        agents_ready().detail == "no worker is online for edge; runner:vm: loop claims is failing"
    )


def test_the_loops_of_who_is_offline_or_has_registered_again_are_not_known(backends):
    backends()
    worker("gone", failing=("claims",))
    silent_for(31, "gone")
    worker("back", failing=("claims",))
    worker("back", incarnation="2")

    assert agents_ready().disabled
    assert all("failingLoops" not in agent.as_wire(clock.now()) for agent in api.list_agents())


def test_readiness_names_five_agents_with_failing_loops_and_counts_the_others(backends):
    backends()
    for number in range(1, 8):
        worker(f"runner:{number}", kind="runner", failing=("claims",))

    sentences = agents_ready().detail.split("; ")

    assert sentences[4:] == ["runner:5: loop claims is failing", "loops of 2 more are failing"]


def test_optional_values_are_left_out_on_the_wire():
    """Invariant 40: the literal null."""
    wire = worker().agent.as_wire(clock.now())
    assert "hostUrl" not in wire
    assert None not in wire.values()


def test_of_who_is_silent_it_is_said_since_when_and_no_job_is_told():
    api.register(api.Registration(agent_id="edge", incarnation="1", kind="worker"))
    api.heartbeat("edge", incarnation="1", running_jobs=3)
    heard = api.get_agent("edge").as_wire(clock.now())
    assert (heard["status"], heard["runningJobs"], "offlineSince" in heard) == ("online", 3, False)

    silent_for(60)

    silent = api.get_agent("edge").as_wire(clock.now())
    assert (silent["status"], silent["runningJobs"]) == ("offline", 0)
    assert silent["offlineSince"] == silent["lastHeartbeatAt"]


@pytest.mark.store
def test_a_drain_outlives_a_restart_and_ends_with_a_removal():
    worker()
    assert services.drain("edge")
    assert not services.drain("edge"), "it drains already"
    assert worker(incarnation="2").agent.as_wire(clock.now())["draining"]

    api.remove("edge")

    assert "draining" not in worker(incarnation="3").agent.as_wire(clock.now())


@pytest.mark.store
def test_a_drain_ends_when_it_is_resumed():
    worker()
    worker("other")
    services.drain("edge")
    assert services.resume("edge")
    assert not services.resume("edge"), "it did not drain"
    assert not api.is_draining("edge")


@pytest.mark.parametrize("act", [services.drain, services.resume])
def test_only_registered_agents_drain_and_resume(act):
    worker()
    api.remove("edge")
    for agent_id in ("edge", "unknown"):
        with pytest.raises(api.AgentNotFound):
            act(agent_id)
