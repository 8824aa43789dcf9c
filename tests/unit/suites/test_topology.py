"""Ids, references, waves and what is refused of them (reference: control-plane 7.7)."""

from __future__ import annotations

import itertools

import pytest

from apps.suites.domain.problems import TopologyProblem
from apps.suites.domain.topology import build_topology


def call(name=None, after=(), on_failure=(), line=1, **more):
    made = {"kind": more.pop("kind", "task"), "after": refs(after), "onFailure": refs(on_failure)}
    named = {"name": name} if name else {}
    position = {"file": "suite.star", "line": line, "column": 1, "sourceLine": "…"}
    return made | named | more | {"position": position}


def refs(given):
    return [{"node": item} if isinstance(item, int) else {"id": item} for item in given]


def shape(nodes):
    return [(node["id"], node["level"]) for node in nodes]


def test_an_unnamed_node_takes_the_longest_global_then_the_first_by_alphabet():
    nodes = build_topology([call(), call()], {"a": 0, "bbb": 0, "aaa": 0})

    assert [node["id"] for node in nodes] == ["aaa", "node_2"]


def test_a_given_name_wins_over_the_global():
    assert build_topology([call("given")], {"bound": 0})[0]["id"] == "given"


def test_a_private_global_is_no_id():
    assert build_topology([call()], {"_hidden": 0})[0]["id"] == "node_1"


def test_levels_are_waves_in_call_order():
    nodes = build_topology(
        [
            call("e2e", after=["api", "seed"]),
            call("db"),
            call("api", after=["db"]),
            call("seed", after=[1]),
            call("log"),
        ],
        {},
    )

    assert shape(nodes) == [("db", 0), ("log", 0), ("api", 1), ("seed", 1), ("e2e", 2)]


def test_depends_on_is_after_then_on_failure_without_doubles():
    nodes = build_topology(
        [call("a"), call("b"), call("c", after=["a", 0, "b"], on_failure=["b", "a"])], {}
    )

    assert nodes[2]["after"] == ["a", "b"]
    assert nodes[2]["onFailure"] == ["b", "a"]
    assert nodes[2]["dependsOn"] == ["a", "b"]


def test_every_order_of_calls_gives_every_node_the_same_level():
    calls = [call("a"), call("b", after=["a"]), call("c", after=["a"]), call("d", after=["b", "c"])]

    for order in itertools.permutations(calls):
        assert dict(shape(build_topology(order, {}))) == {"a": 0, "b": 1, "c": 1, "d": 2}


@pytest.mark.parametrize(
    ("calls", "code", "says", "line"),
    [
        ([], "no_nodes", "declares no nodes", None),
        ([call("a", line=1), call("a", line=7)], "duplicate_step", '"a" is used twice', 7),
        ([call("a.b", line=1), call("a-b", line=7)], "duplicate_step", 'similar to "a.b"', 7),
        ([call("A", line=1), call("a", line=7)], "duplicate_step", 'similar to "A"', 7),
        ([call("execution", line=3)], "reserved_step_id", "reserved", 3),
        ([call("a", after=["b"], line=4)], "unknown_dependency", '"a" depends on "b"', 4),
        ([call("a", on_failure=["b"], line=4)], "unknown_dependency", '"b"', 4),
        ([call("a", after=["a"], line=5)], "dependency_cycle", "a -> a", 5),
        (
            [
                call("x", after=["c"]),
                call("a", after=["b"], line=2),
                call("b", after=["c"]),
                call("c", after=["a"]),
            ],
            "dependency_cycle",
            "a -> b -> c -> a",
            2,
        ),
        (
            [call("a"), call("t", resetMocks=[{"id": "a"}], line=9)],
            "reset_mocks_invalid",
            '"t" resets "a"',
            9,
        ),
        (
            [call("a"), call("t", expectCalls=[{"mocks": [{"id": "a"}], "atLeast": 1}], line=9)],
            "expect_calls_invalid",
            '"t" expects calls of "a", which is a task',
            9,
        ),
        (
            [call("t", resetMocks=[{"id": "gone"}], line=9)],
            "unknown_dependency",
            '"gone"',
            9,
        ),
    ],
)
def test_a_broken_topology_names_code_reason_and_line(calls, code, says, line):
    with pytest.raises(TopologyProblem) as caught:
        build_topology(calls, {})

    assert caught.value.code == code
    assert says in caught.value.message
    assert caught.value.line == line
    assert caught.value.as_dict()["message"].startswith("invalid suite topology: ")


def test_two_thousand_nodes_in_a_row_are_levelled():
    chain = [call("n0"), *(call(f"n{n}", after=[n - 1]) for n in range(1, 2000))]

    assert build_topology(chain, {})[-1]["level"] == 1999


def test_references_to_mocks_become_ids():
    reset, expected = [{"node": 0}, {"id": "psp"}], [{"mocks": [{"node": 0}], "atLeast": 1}]
    nodes = build_topology(
        [
            call("psp", kind="mock"),
            call("t", resetMocks=reset, expectCalls=expected),
        ],
        {},
    )

    test = next(node for node in nodes if node["id"] == "t")
    assert test["resetMocks"] == ["psp"]
    assert test["expectCalls"] == [{"mocks": ["psp"], "atLeast": 1}]
    assert test["dependsOn"] == [], "a step may reset a mock that it does not wait for"
