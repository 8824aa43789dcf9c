"""What follows from statuses: small DAGs, then any DAG against a slow reading of the rules."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.executions.domain.plan import Decision, PlanNode, RunPlan, decide
from apps.executions.domain.states import StepReason, StepStatus
from tests.unit.executions.oracle import expected_decision

LETTERS = {
    "p": StepStatus.PENDING,
    "q": StepStatus.QUEUED,
    "r": StepStatus.RUNNING,
    "h": StepStatus.HEALTHY,
    "f": StepStatus.FAILED,
    "s": StepStatus.SKIPPED,
    "c": StepStatus.CANCELED,
}


def plan(**needs: str) -> RunPlan:
    """`b="a"`: b after a; `b="!a"`: b on failure of a; a name with `_` continues on failure."""
    places = {name.rstrip("_"): at for at, name in enumerate(needs)}
    levels: dict[str, int] = {}
    nodes = []
    for name, text in needs.items():
        words = text.split()
        after = [word for word in words if not word.startswith("!")]
        triggers = [word[1:] for word in words if word.startswith("!")]
        id_ = name.rstrip("_")
        levels[id_] = max((levels[need] + 1 for need in [*after, *triggers]), default=0)
        nodes.append(
            PlanNode(
                id=id_,
                level=levels[id_],
                needs=tuple(places[need] for need in after),
                triggers=tuple(places[trigger] for trigger in triggers),
                continue_on_failure=name.endswith("_"),
            )
        )
    return RunPlan(tuple(nodes))


def asked(graph: RunPlan, letters: str, **facts: Any) -> Decision:
    facts.setdefault("max_parallel", 100)
    return decide(graph, [LETTERS[letter] for letter in letters], **facts)


def names(graph: RunPlan, places: Any) -> list[str]:
    return [graph.nodes[at].id for at in places]


def skipped(graph: RunPlan, decision: Decision) -> dict[str, str]:
    return {graph.nodes[at].id: str(skip.reason) for at, skip in decision.skip.items()}


CHAIN = {"a": "", "b": "a", "c": "b"}
DIAMOND = {"a": "", "b": "a", "c": "a", "d": "b c"}
HANDLED = {"a": "", "b": "a", "fix": "!a", "report": "fix"}


@pytest.mark.parametrize(
    ("graph", "letters", "starts"),
    [
        (CHAIN, "ppp", "a"),
        (CHAIN, "rpp", ""),
        (CHAIN, "hpp", "b"),
        (CHAIN, "hhp", "c"),
        (DIAMOND, "hppp", "b c"),
        (DIAMOND, "hhrp", ""),
        (DIAMOND, "hhhp", "d"),
        ({"a_": "", "b": "a"}, "fp", "b"),  # continue_on_failure satisfies
        (HANDLED, "fspp", "fix"),
        (HANDLED, "fshp", "report"),
        ({"a": "", "b": "", "fix": "!a !b"}, "frp", ""),  # every trigger must be terminal
        ({"a": "", "b": "", "fix": "!a !b"}, "fhp", "fix"),
        ({"a_": "", "fix": "!a"}, "fp", "fix"),  # failed is failed, continued or not
        ({"z": "", "y": "", "x": ""}, "ppp", "x y z"),  # same level: by id
    ],
)
def test_what_is_ready_starts(graph, letters, starts):
    graph = plan(**graph)
    assert names(graph, asked(graph, letters).start) == starts.split()


@pytest.mark.parametrize(
    ("graph", "letters", "reasons"),
    [
        (CHAIN, "fpp", {"b": "dependency_failed", "c": "dependency_skipped"}),
        (DIAMOND, "hfrp", {"d": "dependency_failed"}),
        (HANDLED, "hppp", {"fix": "trigger_not_failed", "report": "dependency_skipped"}),
        ({"a": "", "other": "", "late": "other"}, "frp", {"late": "run_failed"}),
        ({"a": "", "other": ""}, "fq", {"other": "run_failed"}),  # queued, nobody claimed it
        ({"a": "", "b": "", "fix": "!b"}, "frp", {}),  # its trigger is undecided
        ({"a": "", "b": "", "fix": "!b", "then": "fix"}, "frpp", {}),
        ({"a": "", "b": "", "fix": "!b"}, "fhp", {"fix": "trigger_not_failed"}),
        (
            {
                "a": "",
                "b": "",
                "c": "b",
                "fix": "!c",
            },  # c is skipped in the same breath: it did not fail
            "frpp",
            {"c": "run_failed", "fix": "trigger_not_failed"},
        ),
    ],
)
def test_what_cannot_run_any_more_is_skipped(graph, letters, reasons):
    graph = plan(**graph)
    assert skipped(graph, asked(graph, letters)) == reasons


def test_dependents_of_the_canceled_are_canceled_down_the_line():
    graph = plan(**CHAIN)
    assert names(graph, asked(graph, "cpp").cancel) == ["b", "c"]


def test_running_steps_and_those_between_two_attempts_finish_after_a_failure():
    graph = plan(a="", b="", c="")
    decision = asked(graph, "frq", again={2})
    assert not decision.skip
    assert decision.verdict is None


def test_no_more_than_the_limit_is_queued_or_running_at_once():
    graph = plan(a="", b="", c="", d="", e="")
    assert names(graph, asked(graph, "rqhpp", max_parallel=3).start) == ["d"]
    assert not asked(graph, "rqhpp", max_parallel=2).start


@pytest.mark.parametrize(
    ("letters", "verdict"),
    [("hhh", True), ("hhr", None), ("hsh", True), ("fss", False), ("hfh", False)],
)
def test_the_verdict_comes_when_every_step_is_terminal(letters, verdict):
    """Invariant 3: a run healthy with a hard-failed step, or over while a step runs."""
    graph = plan(a="", b="", c="")
    assert asked(graph, letters).verdict is verdict


def test_a_failure_that_the_suite_allows_does_not_fail_the_run():
    graph = plan(a_="", b="a")
    assert asked(graph, "fh").verdict is True


def test_what_was_not_selected_satisfies_its_dependents():
    graph = plan(**CHAIN)
    assert names(graph, asked(graph, "spp", not_selected={0}).start) == ["b"]
    assert skipped(graph, asked(graph, "spp")) == {
        "b": str(StepReason.DEPENDENCY_SKIPPED),
        "c": str(StepReason.DEPENDENCY_SKIPPED),
    }


def any_board(chance: random.Random) -> tuple[RunPlan, list[StepStatus], set[int]]:
    """A plan, a status of each step, and which of the queued ones wait between two attempts."""
    nodes: list[PlanNode] = []
    for at in range(chance.randint(1, 7)):
        needs = set(chance.sample(range(at), chance.randint(0, at)))
        triggers = set(chance.sample(range(at), chance.randint(0, min(at, 2))))
        nodes.append(
            PlanNode(
                id=f"n{at}",
                kind=chance.choice(["task", "service"]),
                level=max((nodes[edge].level + 1 for edge in needs | triggers), default=0),
                needs=tuple(sorted(needs - triggers)),
                triggers=tuple(sorted(triggers)),
                continue_on_failure=chance.random() < 0.5,
            )
        )
    statuses = chance.choices(list(StepStatus), k=len(nodes))
    again = {at for at, each in enumerate(statuses) if each is StepStatus.QUEUED}
    return RunPlan(tuple(nodes)), statuses, {at for at in again if chance.random() < 0.5}


BOARDS = st.randoms(use_true_random=True).map(any_board)  # one draw: a tenth of the time of many


@settings(max_examples=15 * settings().max_examples)
@given(BOARDS, st.integers(1, 5))
def test_any_dag_is_decided_as_the_rules_read(board, max_parallel):
    graph, statuses, again = board
    assert decide(graph, statuses, max_parallel=max_parallel, again=again) == expected_decision(
        graph, statuses, max_parallel, again
    )


@settings(max_examples=5 * settings().max_examples)
@given(BOARDS)
def test_deciding_again_after_obeying_gives_nothing_new_to_skip(board):
    graph, statuses, again = board
    decision = decide(graph, statuses, max_parallel=3, again=again)
    after = list(statuses)
    for at in decision.skip:
        after[at] = StepStatus.SKIPPED
    for at in decision.cancel:
        after[at] = StepStatus.CANCELED
    for at in decision.start:
        after[at] = StepStatus.QUEUED
    repeated = decide(graph, after, max_parallel=3, again=again)
    assert (dict(repeated.skip), repeated.cancel, repeated.start) == ({}, (), ())
