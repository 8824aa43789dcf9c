"""The topology of recorded calls: ids, references, levels (reference: control-plane 7.7)."""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NotRequired, TypedDict, cast

from apps.suites.domain.calls import CallExpectation, RecordedNode
from apps.suites.domain.mock_keywords import WITH_MOCKS
from apps.suites.domain.problems import TopologyProblem
from apps.suites.domain.values import NODE_ID, ArtifactExport, NodeReference
from kernel.ids import slug
from kernel.wire_types import Count, Ordinal

RESERVED_ID: Final = "execution"


class ResolvedExpectation(CallExpectation):
    mocks: list[str]


class ResolvedNode(TypedDict):
    """A step as resolved; further keys depend on `kind`: image, file, command, ready, env.

    References are ids.
    """

    id: str
    name: str
    kind: str
    variant: str
    level: Count
    dependsOn: list[str]
    after: list[str]
    onFailure: list[str]
    continueOnFailure: bool
    idempotent: bool
    retries: Count
    timeoutMs: Ordinal
    image: NotRequired[str]
    artifactExports: NotRequired[list[ArtifactExport]]
    ref: NotRequired[str]
    surfaces: NotRequired[list[str]]
    definition: NotRequired[str]
    resetMocks: NotRequired[list[str]]
    expectCalls: NotRequired[list[ResolvedExpectation]]
    runtimeEnv: NotRequired[dict[str, str]]
    runtimeHeaders: NotRequired[dict[str, str]]


def build_topology(
    recorded: Sequence[RecordedNode], bound: Mapping[str, int]
) -> tuple[ResolvedNode, ...]:
    """Return the nodes in wire form, by level and, within a level, in call order.

    `recorded` are the evaluator's nodes in call order; `bound` maps globals to their indexes.
    Raise TopologyProblem at the call that created the node at fault, with the `more` of others.
    """
    if not recorded:
        raise TopologyProblem("no_nodes", "the suite declares no nodes", file="suite.star")
    nodes, problems = resolve_nodes(recorded, bound)
    if problems:
        raise problems[0].add_problems(problems[1:])
    return assign_levels(nodes)


def resolve_nodes(
    recorded: Sequence[RecordedNode], bound: Mapping[str, int]
) -> tuple[list[ResolvedNode], list[TopologyProblem]]:
    """Return the nodes in wire form without levels, and everything that is wrong with them."""
    ids = identities(recorded, bound)
    kinds = {node_id: call["kind"] for node_id, call in zip(ids, recorded, strict=True)}
    problems = list(_bad_ids(ids, recorded))
    nodes: list[ResolvedNode] = []
    for index, call in enumerate(recorded):
        try:
            nodes.append(_resolve_node(call, index, ids, kinds))
        except TopologyProblem as problem:
            problems.append(problem)
    if not problems:
        needs = {node["id"]: node["dependsOn"] for node in nodes}
        try:
            _refuse_cycles(needs, dict(zip(ids, recorded, strict=True)))
        except TopologyProblem as problem:
            problems.append(problem)
    return nodes, problems


def assign_levels(nodes: Sequence[ResolvedNode]) -> tuple[ResolvedNode, ...]:
    """Give nodes without cycles their levels; return them by level, then in call order."""
    levels = _levels({node["id"]: node["dependsOn"] for node in nodes})
    for node in nodes:
        node["level"] = levels[node["id"]]
    return tuple(sorted(nodes, key=lambda node: node["level"]))  # stable: keeps the call order


def identities(recorded: Sequence[RecordedNode], bound: Mapping[str, int]) -> list[str]:
    """Return each node's name, else its longest global (first by alphabet), else `node_<n>`."""
    names: dict[int, list[str]] = {}
    for name, index in bound.items():
        if NODE_ID.match(name):
            names.setdefault(index, []).append(name)
    best = {index: min(own, key=lambda name: (-len(name), name)) for index, own in names.items()}
    return [
        call.get("name") or best.get(index) or f"node_{index + 1}"
        for index, call in enumerate(recorded)
    ]


def _bad_ids(ids: Sequence[str], recorded: Sequence[RecordedNode]) -> Iterator[TopologyProblem]:
    seen: dict[str, str] = {}
    for node_id, call in zip(ids, recorded, strict=True):
        if node_id == RESERVED_ID:
            yield TopologyProblem(
                "reserved_step_id",
                f'"{node_id}" is a reserved id',
                **call["position"],
            )
        earlier = seen.get(slug(node_id))
        if earlier is not None:
            reason = "is used twice" if earlier == node_id else f'is too similar to "{earlier}"'
            yield TopologyProblem("duplicate_step", f'"{node_id}" {reason}', **call["position"])
        seen[slug(node_id)] = node_id


def _resolve_node(
    call: RecordedNode, index: int, ids: Sequence[str], kinds: Mapping[str, str]
) -> ResolvedNode:
    after = _references(call, call.get("after", []), index, ids)
    on_failure = _references(call, call.get("onFailure", []), index, ids)
    own = {key: value for key, value in call.items() if key != "position"}
    resolved: dict[str, object] = {
        **own,
        "id": ids[index],
        "name": ids[index],
        "after": after,
        "onFailure": on_failure,
        "dependsOn": list(dict.fromkeys([*after, *on_failure])),
    }
    if "resetMocks" in call:
        named = _references(call, call["resetMocks"], index, ids)
        _refuse_others(call, named, ("reset_mocks_invalid", f'"{ids[index]}" resets'), kinds)
        resolved["resetMocks"] = named
    if "expectCalls" in call:
        resolved["expectCalls"] = expectations = []
        for each in call["expectCalls"]:
            named = _references(call, each["mocks"], index, ids)
            what = f'"{ids[index]}" expects calls of'
            _refuse_others(call, named, ("expect_calls_invalid", what), kinds)
            expectations.append({**each, "mocks": named})
    return cast("ResolvedNode", resolved)


def _references(
    call: RecordedNode, wanted: Sequence[NodeReference], index: int, ids: Sequence[str]
) -> list[str]:
    named = [ids[ref["node"]] if "node" in ref else ref["id"] for ref in wanted]
    known = set(ids)
    for reference in named:
        if reference not in known:
            raise TopologyProblem(
                "unknown_dependency",
                f'"{ids[index]}" depends on "{reference}", which is not a node of the suite',
                **call["position"],
            )
    return list(dict.fromkeys(named))


def _refuse_others(
    call: RecordedNode, named: Iterable[str], problem: tuple[str, str], kinds: Mapping[str, str]
) -> None:
    """Raise TopologyProblem for a node that is neither a mock nor an imported suite.

    `problem` is the code, and the beginning of the message.
    """
    code, what = problem
    for node_id in named:
        if kinds[node_id] not in WITH_MOCKS:
            message = f'{what} "{node_id}", which is a {kinds[node_id]}: name a mock or an import'
            raise TopologyProblem(code, message, **call["position"])


def _refuse_cycles(needs: Mapping[str, Iterable[str]], calls: Mapping[str, RecordedNode]) -> None:
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        path = list(reversed(error.args[1]))[:-1]  # each depends on the next
        order = list(calls)
        start = path.index(min(path, key=order.index))
        shown = " -> ".join([*path[start:], *path[:start], path[start]])
        position = calls[path[start]]["position"]
        raise TopologyProblem(
            "dependency_cycle", f"nodes depend on each other: {shown}", **position
        ) from None


def _levels(needs: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Return each node's level, one above the highest of its dependencies (Kahn)."""
    sorter = graphlib.TopologicalSorter(needs)
    sorter.prepare()
    levels: dict[str, int] = {}
    wave = 0
    while sorter.is_active():
        ready = sorter.get_ready()
        levels |= dict.fromkeys(ready, wave)
        sorter.done(*ready)
        wave += 1
    return levels
