"""Properties of flattening, whatever the suites are (reference: control-plane 8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.profiles.api import LaunchProfile
from apps.suites.domain.dependencies import Pin
from apps.suites.domain.flat_topology import ExpandedImport, ImportedSuite, flatten
from apps.suites.domain.problems import TopologyProblem
from apps.suites.domain.topology import ResolvedNode, assign_levels

Graph = list[set[int]]  # of each node, the earlier ones that it waits for


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    size = draw(st.integers(1, 7))
    return [draw(st.sets(st.integers(0, n - 1))) if n else set() for n in range(size)]


def nodes_of(graph: Graph, prefix: str) -> tuple[ResolvedNode, ...]:
    made = [
        {
            "id": f"{prefix}{n}", "name": f"{prefix}{n}", "kind": "task", "variant": "run",
            "after": [f"{prefix}{need}" for need in sorted(needs)], "onFailure": [],
            "dependsOn": [f"{prefix}{need}" for need in sorted(needs)], "level": 0,
        }
        for n, needs in enumerate(graph)
    ]  # fmt: skip
    return assign_levels(cast("list[ResolvedNode]", made))


def imported(path: str, graph: Graph) -> ExpandedImport:
    pin = Pin(
        alias=path, ref=path, repository=path, version="", digest="", profile="", inputs={},
        resolved=path, locked=False,
    )  # fmt: skip
    suite = ImportedSuite(
        path=path, suite_id=path, title=path, repository=path, version="1", digest="", files={},
        secret_refs=(),
    )  # fmt: skip
    return ExpandedImport(
        pin=pin, suite=suite, profile=LaunchProfile(), topology=nodes_of(graph, "c")
    )


def flat(outer: Graph, children: dict[int, Graph]) -> tuple[ResolvedNode, ...]:
    nodes = nodes_of(outer, "n")
    imports = {f"n{n}": imported(f"n{n}", graph) for n, graph in children.items()}
    positions: Any = {path: {} for path in imports}
    return flatten(nodes, imports, positions, env_prefixes=("PARTITA",), max_nodes=1000)


cases = graphs().flatmap(
    lambda outer: st.tuples(
        st.just(outer), st.dictionaries(st.integers(0, len(outer) - 1), graphs(), max_size=3)
    )
)


def reachable(nodes: tuple[ResolvedNode, ...]) -> dict[str, set[str]]:
    """Return what each node waits for, directly or not; `nodes` are in order of level."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        needs = set(node["dependsOn"])
        found[node["id"]] = needs.union(*(found[need] for need in needs))
    return found


@given(cases)
def test_flattening_is_deterministic_and_ids_are_unique(case):
    outer, children = case

    first, second = flat(outer, children), flat(outer, children)

    assert first == second
    ids = [node["id"] for node in first]
    assert len(set(ids)) == len(ids)
    assert len(ids) == len(outer) - len(children) + sum(map(len, children.values()))
    assert not {f"n{n}" for n in children} & set(ids), "the import nodes are gone"


@given(cases)
def test_every_edge_is_kept(case):
    """Inside a child as written; between suites, all of the child before or after the other."""
    outer, children = case
    nodes = flat(outer, children)
    waits = reachable(nodes)

    for n, graph in children.items():
        for m, needs in enumerate(graph):
            node = next(each for each in nodes if each["id"] == f"n{n}/c{m}")
            inside = {need for need in node["dependsOn"] if need.startswith(f"n{n}/")}
            assert inside == {f"n{n}/c{need}" for need in needs}
    for n, needs in enumerate(outer):
        for need in needs:
            later = [f"n{n}/c{m}" for m in range(len(children[n]))] if n in children else [f"n{n}"]
            earlier = (
                {f"n{need}/c{m}" for m in range(len(children[need]))}
                if need in children
                else {f"n{need}"}
            )
            for node_id in later:
                assert earlier <= waits[node_id], (node_id, earlier)


@given(cases)
def test_levels_follow_the_edges(case):
    nodes = flat(*case)
    level = {node["id"]: node["level"] for node in nodes}

    assert [node["level"] for node in nodes] == sorted(level.values())
    for node in nodes:
        assert node["level"] == max((level[need] + 1 for need in node["dependsOn"]), default=0)


def with_mocks(suite: ExpandedImport, *mocks: int, **members: Any) -> ExpandedImport:
    """An import whose nodes with these numbers are mocks; `members` are those of its last node."""
    nodes = [cast("dict[str, Any]", dict(node)) for node in suite.topology]
    for node in nodes:
        node["kind"] = "mock" if int(node["id"][1:]) in mocks else "task"
    nodes[-1] |= members
    profile = LaunchProfile(file_name="ci.yaml")
    return replace(suite, topology=tuple(cast("Any", nodes)), profile=profile)


def flattened(outer: Graph, path: str, suite: ExpandedImport, **members: Any) -> dict[str, Any]:
    """The flat nodes by id; `members` are those of the last node of the importing suite."""
    nodes = [cast("dict[str, Any]", dict(node)) for node in nodes_of(outer, "n")]
    nodes[-1] |= members
    at: Any = {node["id"]: {"file": "suite.star", "line": 7} for node in nodes}
    flat = flatten(cast("Any", nodes), {path: suite}, at, env_prefixes=("PARTITA",), max_nodes=100)
    return {node["id"]: node for node in flat}


def test_an_import_stands_for_its_mocks():
    suite = with_mocks(imported("n0", [set(), {0}, {1}]), 0, 2)
    expected = [{"mocks": ["n0"], "operation": "pay", "atLeast": 1}]

    nodes = flattened([set(), {0}], "n0", suite, resetMocks=["n0"], expectCalls=expected)

    assert nodes["n1"]["resetMocks"] == ["n0/c0", "n0/c2"]
    assert nodes["n1"]["expectCalls"] == [{**expected[0], "mocks": ["n0/c0", "n0/c2"]}]
    headers = {node_id: node.get("runtimeHeaders") for node_id, node in nodes.items()}
    of_profile = {"x-suite-profile": "ci.yaml"}
    assert headers == {"n0/c0": of_profile, "n0/c1": None, "n0/c2": of_profile, "n1": None}


def test_references_to_mocks_inside_an_import_move_with_it():
    inside = {"resetMocks": ["c0"], "expectCalls": [{"mocks": ["c0"], "atLeast": 2}]}
    suite = with_mocks(imported("n0", [set(), {0}]), 0, **inside)

    nodes = flattened([set()], "n0", suite)

    assert nodes["n0/c1"]["resetMocks"] == ["n0/c0"]
    assert nodes["n0/c1"]["expectCalls"] == [{"mocks": ["n0/c0"], "atLeast": 2}]


def test_calls_of_an_import_without_mocks_cannot_be_expected():
    suite = with_mocks(imported("n0", [set()]))
    with pytest.raises(TopologyProblem, match="n0, which has no mocks") as caught:
        flattened([set(), {0}], "n0", suite, expectCalls=[{"mocks": ["n0"], "atLeast": 1}])
    assert (caught.value.code, caught.value.line) == ("expect_calls_invalid", 7)

    nodes = flattened([set(), {0}], "n0", suite, resetMocks=["n0"])
    assert nodes["n1"]["resetMocks"] == []
