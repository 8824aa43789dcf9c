"""Which steps of an ended run run again: small DAGs, then any DAG that any run has left behind."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.executions.domain.plan import PlanNode, RunPlan, decide
from apps.executions.domain.rerun import (
    NothingToRerun,
    RerunReason,
    RerunScope,
    Selection,
    StepOutcomeFacts,
    failure_paths,
    select_steps,
)
from apps.executions.domain.states import StepReason, StepStatus
from tests.unit.executions.test_decide import LETTERS, plan

SHOP = {
    "db": "",
    "cache": "",
    "migrate": "db",
    "seed": "migrate",
    "warm": "cache",
    "unit": "",
    "orders": "seed warm",
    "report": "orders",
    "dump": "db !orders",
}


def outcomes(letters: str, **reasons: StepReason) -> list[StepOutcomeFacts]:
    """A letter a step in the order of the plan; `x` is skipped as not selected."""
    found = [
        StepOutcomeFacts(StepStatus.SKIPPED, StepReason.NOT_SELECTED)
        if letter == "x"
        else StepOutcomeFacts(
            LETTERS[letter], StepReason.DEPENDENCY_FAILED if letter == "s" else ""
        )
        for letter in letters
    ]
    names = list(SHOP)
    for name, reason in reasons.items():
        found[names.index(name)] = StepOutcomeFacts(StepStatus.SKIPPED, reason)
    return found


def reasons(graph: RunPlan, selection: Selection) -> dict[str, str]:
    return {graph.nodes[each.index].id: each.text(graph) for each in selection.steps}


def omitted(graph: RunPlan, selection: Selection) -> dict[str, str]:
    return {graph.nodes[each.index].id: str(each.reason) for each in selection.omitted}


def test_failed_steps_run_again_with_all_that_they_need_in_an_empty_environment():
    graph = plan(**SHOP)

    found = select_steps(graph, outcomes("hhhhhhfsh"), RerunScope.FAILED)

    assert reasons(graph, found) == {
        "cache": "needed by warm",
        "db": "needed by migrate",
        "migrate": "needed by seed",
        "warm": "needed by orders",
        "seed": "needed by orders",
        "orders": "failed",
        "report": "depends on failed orders",
        "dump": "runs if orders fails",
    }
    assert omitted(graph, found) == {"unit": "succeeded"}


@pytest.mark.parametrize(
    ("graph", "letters", "again", "left"),
    [
        ({"a": "", "b": "a", "c": ""}, "hfh", "a b", "c"),
        ({"a": "", "b": "", "c": "a b"}, "hfs", "a b c", ""),
        ({"a": "", "b": "a"}, "fs", "a b", ""),
        ({"a": "", "b": ""}, "ch", "a", "b"),  # canceled
        ({"a_": "", "b": "a", "c": ""}, "fhh", "a", "b c"),  # allowed to fail
        ({"a": "", "b": "a", "c": "b"}, "xfs", "a b c", ""),  # needed, though left out before
        ({"a": "", "b": ""}, "xf", "b", "a"),
        ({"a": "", "fix": "!a", "after": "fix", "b": ""}, "fhhh", "a fix after", "b"),
        ({"a": "", "fix": "!a", "after": "fix", "b": ""}, "hssf", "b", "a fix after"),
        ({"a": "", "x": "", "fix": "x !a", "b": ""}, "fhhh", "a x fix", "b"),  # needs of handlers
        ({"a": "", "b": "", "fix": "!a !b"}, "fhh", "a fix", "b"),  # one trigger is enough
        ({"a": "", "fix": "!a", "deep": "!fix", "b": ""}, "ffhh", "a fix deep", "b"),
    ],
)
def test_the_scope_failed(graph: dict[str, str], letters: str, again: str, left: str):
    made = plan(**graph)

    found = select_steps(made, outcomes(letters), RerunScope.FAILED)

    assert set(reasons(made, found)) == set(again.split())
    assert set(omitted(made, found)) == set(left.split())


@pytest.mark.parametrize(
    ("graph", "chosen", "again"),
    [
        (SHOP, "seed", "db migrate seed"),
        (SHOP, "orders", "db cache migrate seed warm orders dump"),
        (SHOP, "unit", "unit"),
        # a handler runs after a failure only, so its trigger is there
        (SHOP, "dump", "db cache migrate seed warm orders dump"),
    ],
)
def test_the_scope_step(graph: dict[str, str], chosen: str, again: str):
    made = plan(**graph)
    index = list(graph).index(chosen)

    found = select_steps(made, outcomes("hhhhhhfsh"), RerunScope.STEP, index)

    assert set(reasons(made, found)) == set(again.split())
    assert reasons(made, found)[chosen] == "chosen"
    assert set(omitted(made, found).values()) <= {"not_chosen"}


def test_the_scope_all_leaves_nothing_out():
    graph = plan(**SHOP)

    found = select_steps(graph, outcomes("hhhhhhhhs"), RerunScope.ALL)

    assert len(found.steps) == len(SHOP)
    assert found.omitted == ()


@pytest.mark.parametrize("letters", ["hhhhhhhhs", "hhhhhxhhs", "xxxxxxxxs"])
def test_without_a_failure_there_is_nothing_to_rerun(letters: str):
    found = outcomes(letters, dump=StepReason.TRIGGER_NOT_FAILED)

    with pytest.raises(NothingToRerun):
        select_steps(plan(**SHOP), found, RerunScope.FAILED)


def test_what_a_failed_run_as_a_whole_did_not_start_did_not_run():
    graph = plan(a="", b="a")
    left = [StepOutcomeFacts(StepStatus.SKIPPED, StepReason.RUN_FAILED)] * 2

    found = select_steps(graph, left, RerunScope.FAILED)

    assert reasons(graph, found) == {"a": "did not run", "b": "did not run"}


def test_why_a_step_is_left_out_is_said():
    graph = plan(a="", b="", fix="!a", c="")
    found = outcomes("hxsf")
    found[2] = StepOutcomeFacts(StepStatus.SKIPPED, StepReason.TRIGGER_NOT_FAILED)

    selection = select_steps(graph, found, RerunScope.FAILED)

    assert omitted(graph, selection) == {
        "a": "succeeded", "b": "not_selected", "fix": "not_needed",
    }  # fmt: skip


def test_of_forty_steps_with_three_failures_these_and_what_they_need_run_again():
    graph = plan(**forty_steps())
    names = [node.id for node in graph.nodes]
    broken = {"t07", "t19", "t33"}
    found = [
        StepOutcomeFacts(StepStatus.FAILED if name in broken else StepStatus.HEALTHY)
        for name in names
    ]

    selection = select_steps(graph, found, RerunScope.FAILED)

    assert set(reasons(graph, selection)) == broken | {"db", "seed"}
    assert len(selection.omitted) == 35


def forty_steps() -> dict[str, str]:
    """A service, its seed, another service and 37 tests, most of which need the seed."""
    tests = {f"t{n:02}": "seed" if n != 5 else "queue" for n in range(3, 40)}
    return {"db": "", "seed": "db", "queue": "", **tests}


@st.composite
def ended_runs(draw: st.DrawFn) -> tuple[RunPlan, list[StepOutcomeFacts]]:
    """A DAG and how a run of it ended: `decide` made it, and chance let steps fail."""
    nodes: list[PlanNode] = []
    for index in range(draw(st.integers(1, 14))):
        before = st.sets(st.integers(0, index - 1), max_size=3) if index else st.just(set())
        needs = draw(before)
        triggers = draw(before) - needs if draw(st.booleans()) else set()
        levels = [nodes[each].level + 1 for each in needs | triggers]
        nodes.append(
            PlanNode(
                id=f"n{index:02}",
                level=max(levels, default=0),
                needs=tuple(sorted(needs)),
                triggers=tuple(sorted(triggers)),
                continue_on_failure=draw(st.booleans()),
            )
        )
    graph = RunPlan(tuple(nodes))
    chance = random.Random(draw(st.integers(0, 2**32)))
    return graph, ended(graph, chance)


def ended(graph: RunPlan, chance: random.Random) -> list[StepOutcomeFacts]:
    statuses = [StepStatus.PENDING] * len(graph.nodes)
    why = [""] * len(graph.nodes)
    while (decision := decide(graph, statuses, max_parallel=3)).verdict is None:
        for index, skip in decision.skip.items():
            statuses[index], why[index] = StepStatus.SKIPPED, skip.reason
        for index in decision.start:
            wrong = chance.random() < 0.3
            statuses[index] = StepStatus.FAILED if wrong else StepStatus.HEALTHY
    return [StepOutcomeFacts(*each) for each in zip(statuses, why, strict=True)]


@settings(max_examples=5 * settings().max_examples)
@given(ended_runs(), st.data())
def test_what_a_selected_step_needs_is_selected(
    made: tuple[RunPlan, list[StepOutcomeFacts]], data: st.DataObject
):
    graph, found = made
    scope = data.draw(st.sampled_from([RerunScope.FAILED, RerunScope.STEP]))
    chosen = data.draw(st.integers(0, len(found) - 1)) if scope is RerunScope.STEP else None
    paths = failure_paths(graph)
    unsuccessful = {
        index
        for index, each in enumerate(found)
        if each.status is not StepStatus.HEALTHY and index not in paths
    }
    try:
        selection = select_steps(graph, found, scope, chosen)
    except NothingToRerun:
        assert not unsuccessful
        return

    selected = {each.index for each in selection.steps}
    for index in selected:
        assert selected.issuperset(graph.nodes[index].needs)
        triggers = graph.nodes[index].triggers
        assert not triggers or selected.intersection(triggers)
    for index in set(range(len(found))) - selected:  # a handler is there with its trigger
        if index in paths and graph.nodes[index].triggers:
            needs = paths.intersection(graph.nodes[index].needs)
            assert not selected.intersection(graph.nodes[index].triggers) or needs - selected
    assert selected >= (unsuccessful if scope is RerunScope.FAILED else {chosen})
    others = {each.index for each in selection.omitted}
    assert selected | others == set(range(len(found)))
    assert not selected & others


@settings(max_examples=5 * settings().max_examples)
@given(ended_runs(), st.integers(0, 2**32))
def test_the_steps_that_run_again_come_to_an_end_and_the_others_stay_out(
    made: tuple[RunPlan, list[StepOutcomeFacts]], seed: int
):
    graph, found = made
    try:
        selection = select_steps(graph, found, RerunScope.FAILED)
    except NothingToRerun:
        return
    left_out = {each.index for each in selection.omitted}
    statuses = [
        StepStatus.SKIPPED if index in left_out else StepStatus.PENDING
        for index in range(len(found))
    ]
    chance, started = random.Random(seed), set[int]()
    decision = decide(graph, statuses, max_parallel=2, not_selected=left_out)
    for _ in range(10 * len(found)):
        if decision.verdict is not None:
            break
        for index in decision.skip:
            statuses[index] = StepStatus.SKIPPED
        for index in decision.start:
            started.add(index)
            wrong = chance.random() < 0.3
            statuses[index] = StepStatus.FAILED if wrong else StepStatus.HEALTHY
        decision = decide(graph, statuses, max_parallel=2, not_selected=left_out)

    assert decision.verdict is not None
    assert not started & left_out
    if all(statuses[index] is not StepStatus.FAILED for index in started):
        failed = [each for each in selection.steps if each.reason is RerunReason.FAILED]
        assert {each.index for each in failed} <= started
