"""The join of looks with runs and supervisors (reference: control-plane 17)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.environments.domain.inventory import (
    RESOURCE_KINDS,
    EnvironmentStatus,
    InventoryFacts,
    RuntimeLook,
    SeenResource,
    group_resources,
    track,
    unite_looks,
)
from apps.environments.domain.orchestrators import DeadTime
from apps.environments.domain.reaps import overlaps, split_by_reach, unite_marks
from apps.environments.domain.wire import (
    environment_document,
    is_match,
    look_warnings,
    snapshot_document,
)
from kernel.agent_protocol import UNKNOWN_TIME, RuntimeResource, StepUsage
from tests.support.resources import CREATED, resource
from tests.unit.environments.test_orchestrators import NOW, RUN, ago, over, record, run

OTHER = "run-000000000002"


def seen(*resources: RuntimeResource) -> list[SeenResource]:
    return [SeenResource(each, frozenset({"runner:a"})) for each in resources]


def look(*resources: RuntimeResource, **facts: Any) -> RuntimeLook:
    known: dict[str, Any] = {
        "agent_id": "runner:a",
        "host_id": "h",
        "looked_at": NOW,
        "available": True,
    }
    return RuntimeLook(**known | facts, resources=resources)


def facts(**known: Any) -> InventoryFacts:
    return InventoryFacts(now=NOW, **known)


def test_the_resources_of_a_run_are_one_environment_named_by_the_run() -> None:
    everything = seen(resource(), resource("network", "net"), resource("volume", "ws"))

    found = track(everything, facts(runs={RUN: run()}, orchestrators={"runner:a": record(1)}))

    assert [each.sandbox_id for each in found] == [RUN]
    assert found[0].summary == "1 containers, 1 networks, 1 volumes"
    assert (found[0].status, found[0].state) == ("Running", "alive")
    assert (found[0].suite, found[0].owner, found[0].warnings) == ("Shop", "Ada", ())


def test_what_has_no_run_is_an_orphan_named_by_kind_and_name() -> None:
    everything = seen(
        resource(name="My_Store", run_id=""),
        resource("network", "My_Store", run_id=""),
        resource(name="x", label={"run_id": "not/an id"}, run_id=""),
        resource(name="y", label={"run_id": "orphan-container-my-store"}, run_id=""),
    )

    found = {each.sandbox_id: each for each in track(everything, facts())}

    assert set(found) == {
        "orphan-container-my-store",
        "orphan-network-my-store",
        "orphan-container-x",
        "orphan-container-y",
    }
    assert {each.state for each in found.values()} == {"unknown"}
    assert {each.run_id for each in found.values()} == {""}


def test_missing_labels_are_said_and_warned_about() -> None:
    bare = RuntimeResource(
        kind="container",
        id="c",
        name="c",
        created_at=CREATED,
        labels={"partita.run_id": RUN},
        state="exited",
    )

    found = track(seen(bare), facts())[0]

    assert (found.suite, found.owner, found.profile) == (
        "Unattributed sandbox",
        "Unknown owner",
        "No profile label",
    )
    assert [text.rsplit(".", 1)[-1] for text in found.warnings] == [
        "suite is missing",
        "owner is missing",
        "profile is missing",
    ]


DEAD_FOR_A_WHILE = {RUN: DeadTime(since=ago(60), seen_at=NOW)}


@pytest.mark.parametrize(
    ("resources", "known", "status"),
    [
        ([resource()], {"runs": {RUN: over()}, "dead_times": DEAD_FOR_A_WHILE}, "Zombie"),
        ([resource()], {"dead_times": DEAD_FOR_A_WHILE}, "Zombie"),
        ([resource()], {"runs": {RUN: over()}}, "Running"),
        (
            [resource()],
            {"runs": {RUN: over(finished_at=ago(30))}, "dead_times": DEAD_FOR_A_WHILE},
            "Running",
        ),
        (
            [resource()],
            {"runs": {RUN: over(keep_alive_until=ago(-9))}, "dead_times": DEAD_FOR_A_WHILE},
            "Running",
        ),
        ([resource(state="paused")], {"dead_times": DEAD_FOR_A_WHILE}, "Zombie"),
        ([resource(state="exited", exit_code=1)], {"runs": {RUN: run()}}, "Degraded"),
        ([resource(state="exited", exit_code=1)], {"runs": {RUN: over()}}, "Residual"),
        ([resource(state="exited", exit_code=0)], {"runs": {RUN: run()}}, "Residual"),
        ([resource(state="restarting")], {"runs": {RUN: run()}}, "Degraded"),
        ([resource(state="dead")], {"runs": {RUN: over()}}, "Degraded"),
        ([resource("volume", "ws")], {"runs": {RUN: run()}}, "Residual"),
        ([resource("network", "net")], {"dead_times": DEAD_FOR_A_WHILE}, "Residual"),
    ],
)
def test_the_status_is_the_first_that_matches(
    resources: list[RuntimeResource], known: dict[str, Any], status: str
) -> None:
    assert track(seen(*resources), facts(**known))[0].status == status


def test_zombies_come_first_then_by_status_newest_start_and_id() -> None:
    runs = {
        "run-000000000001": run(started_at=ago(100)),
        "run-000000000002": run(started_at=ago(50)),
        "run-000000000003": run(started_at=ago(50)),
        "run-000000000005": run(started_at=ago(1)),
    }
    everything = seen(
        resource(run_id="run-000000000001", name="a"),
        resource(run_id="run-000000000003", name="b"),
        resource(run_id="run-000000000002", name="c"),
        resource(run_id="run-000000000004", name="d"),
        resource("volume", "e", run_id="run-000000000005"),
    )
    dead = {"run-000000000004": DeadTime(since=ago(60), seen_at=NOW)}

    found = track(everything, facts(runs=runs, dead_times=dead))

    numbers = [each.sandbox_id[-1] for each in found]
    assert numbers == ["4", "2", "3", "1", "5"]


def test_the_orchestrator_is_the_one_bound_to_else_the_one_that_made_the_newest() -> None:
    everything = seen(
        resource(name="old", label={"orchestrator_id": "runner:old"}),
        resource(name="new", minutes=5, label={"orchestrator_id": "runner:new"}),
    )

    bound = track(everything, facts(runs={RUN: run(agent_id="runner:bound")}))[0]
    free = track(everything, facts(runs={RUN: run(agent_id="")}))[0]

    assert (bound.orchestrator_id, free.orchestrator_id) == ("runner:bound", "runner:new")


def test_an_engine_that_two_supervisors_reach_is_listed_once_as_seen_last() -> None:
    before = look(resource(state="running"), agent_id="runner:b", looked_at=ago(5))
    after = look(resource(state="exited"), agent_id="runner:a")

    [found] = unite_looks([after, before])

    assert found.resource.state == "exited"
    assert found.agents == {"runner:a", "runner:b"}


RESOURCES = st.builds(
    lambda kind, name, run_id: resource(kind, name, run_id=run_id),
    st.sampled_from(RESOURCE_KINDS),
    st.sampled_from(["a", "b", "A", "b!"]),
    st.sampled_from(["", RUN, OTHER]),
)


@given(st.lists(RESOURCES, max_size=30))
def test_every_resource_is_in_exactly_one_environment(resources: list[RuntimeResource]) -> None:
    everything = unite_looks([look(*resources)])

    groups = group_resources(everything)

    assert sorted(map(id, everything)) == sorted(
        id(each) for group in groups.values() for each in group
    )
    for sandbox_id, group in groups.items():
        runs = {each.label("partita.run_id") for each in group}
        assert len(runs) == 1
        assert runs == {sandbox_id} or (runs == {""} and sandbox_id.startswith("orphan-"))


@given(st.lists(RESOURCES, max_size=30), st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_order_of_the_lists(
    resources: list[RuntimeResource], random: Any
) -> None:
    everything = unite_looks([look(*resources)])
    shuffled = random.sample(everything, len(everything))

    first, second = track(everything, facts()), track(shuffled, facts())

    assert [each.sandbox_id for each in first] == [each.sandbox_id for each in second]
    order = [list(EnvironmentStatus).index(each.status) for each in first]
    assert order == sorted(order)


@given(
    is_running=st.booleans(),
    keep_s=st.integers(-100, 100),
    is_over=st.booleans(),
    known=st.booleans(),
    silent_s=st.integers(0, 300),
    dead_s=st.integers(0, 100),
)
def test_a_kept_world_is_never_a_zombie_and_a_zombie_never_has_a_living_supervisor(
    is_running: bool, keep_s: int, is_over: bool, known: bool, silent_s: int, dead_s: int
) -> None:
    one = (over if is_over else run)(keep_alive_until=ago(-keep_s))
    container = resource(state="running" if is_running else "exited")

    [found] = track(
        seen(container),
        facts(
            runs={RUN: one} if known else {},
            orchestrators={"runner:a": record(silent_s)},
            dead_times={RUN: DeadTime(since=ago(dead_s), seen_at=NOW)},
        ),
    )

    if known and keep_s > 0:
        assert not found.is_zombie
    if found.is_zombie:
        assert is_running
        assert dead_s >= 30
        assert not known or is_over or silent_s > 120
        assert found.zombie_reason


def test_usage_is_that_of_the_steps_by_their_job_and_only_of_what_runs() -> None:
    everything = seen(
        resource(name="a", label={"job_id": "j1"}, memory_limit_bytes=1000),
        resource(name="b", label={"job_id": "j2"}, memory_limit_bytes=1000),
        resource(name="c", label={"job_id": "j3"}, state="exited", memory_limit_bytes=1000),
    )
    usage = {
        "j1": StepUsage(cpu_percent=12.5, memory_bytes=500),
        "j3": StepUsage(cpu_percent=99.0, memory_bytes=900),
    }

    [found] = track(everything, facts(runs={RUN: run()}, usage=usage))
    document = environment_document(found, can_reap=True)

    assert document["resourceUsage"] == {
        "cpuPercent": 12.5,
        "memoryBytes": 500,
        "memoryLimitBytes": 2000,
        "memoryPercent": 25.0,
    }
    assert [("usage" in each) for each in document["containers"]] == [True, True, False]


def test_a_document_names_the_supervisor_the_run_and_why_it_is_a_zombie() -> None:
    everything = seen(resource(label={"step": "store", "orchestrator_id": "runner:a"}))
    known = facts(
        runs={RUN: over(agent_id="")},
        orchestrators={"runner:a": record(200)},
        dead_times=DEAD_FOR_A_WHILE,
    )

    document = environment_document(track(everything, known)[0], can_reap=False)

    assert document["zombieReason"] == "its run ended 5 min ago (Failed)"
    assert (document["orchestratorId"], document["orchestratorPid"]) == ("runner:a", 42)
    assert (document["isZombie"], document["canReap"]) == (True, False)
    assert document["executionStatus"] == "Failed"
    assert document["containers"][0]["stepId"] == "store"


def test_what_nobody_knows_of_an_environment_is_left_out() -> None:
    """Invariant 40."""
    known = facts(runs={RUN: run()}, orchestrators={"runner:a": record(1)})
    for tracked in (
        *track(seen(resource(), resource("network", "net"), resource("volume", "ws")), known),
        *track(seen(resource(run_id="")), facts()),
    ):
        assert "null" not in json.dumps(environment_document(tracked, can_reap=True))


def test_a_time_that_the_runtime_does_not_tell_is_left_out() -> None:
    """Invariant 40: no year 1."""
    (tracked,) = track(seen(replace(resource(run_id=""), created_at=UNKNOWN_TIME)), facts())

    document = environment_document(tracked, can_reap=True)

    assert "startedAt" not in document
    assert "createdAt" not in document["containers"][0]


@pytest.mark.parametrize(
    ("statuses", "words", "expected"),
    [
        (set(), "", True),
        ({"Running"}, "", True),
        ({"Zombie", "Residual"}, "", False),
        (set(), "SHOP", True),
        (set(), "busy", True),
        (set(), "net-1", True),
        (set(), "nothing", False),
        ({"Zombie"}, "shop", False),
    ],
)
def test_filters_are_by_status_and_by_words_anywhere(
    statuses: set[str], words: str, expected: bool
) -> None:
    everything = seen(resource(image="busybox:1.36"), resource("network", "net-1"))
    [found] = track(everything, facts(runs={RUN: run()}))

    document = environment_document(found, can_reap=True)

    assert is_match(document, statuses=frozenset(statuses), words=words) is expected


def test_a_snapshot_sums_up_and_says_that_no_runtime_is_known() -> None:
    [found] = track(seen(resource()), facts(dead_times=DEAD_FOR_A_WHILE))
    document = environment_document(found, can_reap=True)

    full = snapshot_document([document], reaps=(), available=True, warnings=["x"], now=NOW)
    empty = snapshot_document([], reaps=(), available=False, warnings=["x", "y"], now=NOW)

    assert (full["summary"]["zombieSandboxes"], full["summary"]["activeSandboxes"]) == (1, 0)
    assert (full["summary"]["containers"], full["warnings"]) == (1, ["x"])
    assert (empty["containerRuntimeAvailable"], len(empty["warnings"])) == (False, 1)


def test_looks_warn_of_runtimes_that_are_away_and_of_lists_that_are_cut() -> None:
    looks = [
        look(agent_id="a", available=False),
        look(resource(), agent_id="b", omitted=2),
        look(agent_id="c"),
    ]

    first, second = look_warnings(looks)

    assert first.startswith("a: its runtime did not answer")
    assert second == "b: only 1 of 3 resources are shown"


def test_marks_before_and_after_are_one_set_split_by_who_reaches_them() -> None:
    before = seen(resource(name="a"), resource(name="b", state="running"))
    after = [
        SeenResource(resource(name="b", state="exited"), frozenset({"runner:a"})),
        SeenResource(resource(name="c"), frozenset({"runner:a", "runner:b"})),
    ]

    marked = unite_marks(before, after)
    parts = split_by_reach(marked)

    assert {each.resource.name: each.resource.state for each in marked} == {
        "a": "running",
        "b": "exited",
        "c": "running",
    }
    assert {tuple(sorted(agents)): len(part) for agents, part in parts.items()} == {
        ("runner:a",): 2,
        ("runner:a", "runner:b"): 1,
    }


def test_reaps_overlap_if_they_have_one_target_or_one_is_of_everything() -> None:
    everything = "all-managed-sandboxes"

    assert overlaps(RUN, RUN)
    assert overlaps(RUN, everything)
    assert overlaps(everything, OTHER)
    assert not overlaps(RUN, OTHER)


def test_a_resource_with_other_labels_or_another_age_is_another_one() -> None:
    one = resource()

    assert one.is_same(resource(state="exited"))
    assert not one.is_same(resource(label={"owner": "Bob"}))
    assert not one.is_same(resource(minutes=1))
    assert not one.is_same(resource(id="other"))
