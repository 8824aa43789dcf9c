"""Which API surfaces the mock nodes of a topology serve (reference: control-plane 7.7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from apps.suites.domain.problems import Position, TopologyProblem
from apps.suites.domain.topology import ResolvedNode
from kernel.errors import known_names
from readers.diagnostics import likely_name
from surfaces import Surface
from surfaces.model import Operation, adapter_of

ServedSurfaces = Mapping[str, str]  # surface id → adapter, "" for one without operations


def served_surfaces(
    node: ResolvedNode, known: Sequence[Surface], at: Position | None = None
) -> ServedSurfaces:
    """Return the surfaces of a mock node; `known` are those of the suite that declares it.

    Without `surface` and `definition`, it serves the one whose id is the node's, otherwise all that
    have operations. Raise TopologyProblem `mock_surface_missing` for a named surface that the suite
    does not have.
    """
    by_id = {surface.surface_id: surface for surface in known}
    own_id = node["id"].rpartition("/")[2]
    every = [name for name, surface in by_id.items() if surface.operations]
    if definition := node.get("definition"):
        return _served_of_definition(node["id"], definition, known, at)
    named = node.get("surfaces") or ([own_id] if own_id in by_id else every)
    for name in named:
        if name not in by_id:
            message = f'"{node["id"]}" serves "{name}", which is no surface of the suite'
            raise TopologyProblem(
                "mock_surface_missing",
                f"{message}{known_names(by_id)}{likely_name(name, by_id)}",
                **(at or {}),
            )
    return {
        name: adapter_of(by_id[name].protocol) if by_id[name].operations else "" for name in named
    }


def _served_of_definition(
    node_id: str, definition: str, known: Sequence[Surface], at: Position | None
) -> ServedSurfaces:
    """Return the surfaces with an operation of a contract, or of a file or folder of mocks."""
    found = {
        surface.surface_id: adapter_of(surface.protocol)
        for surface in known
        if any(_is_of(operation, definition) for operation in surface.operations)
    }
    if not found:
        message = f'"{node_id}" serves {definition}, which gives the suite no operation'
        raise TopologyProblem("mock_surface_missing", message, **(at or {}))
    return found


def _is_of(operation: Operation, definition: str) -> bool:
    mock = operation.mock
    files = (operation.contract_path, mock.mock_path, mock.metadata_path)
    return any(file == definition or file.startswith(f"{definition}/") for file in files)


def _unknown_operation(
    node: ResolvedNode,
    nodes: Mapping[str, ResolvedNode],
    known: Sequence[Surface],
    at: Position | None,
) -> TopologyProblem | None:
    """Return that a step expects calls of an operation that none of its mocks has.

    Mocks of imported suites have operations that are not known here.
    """
    for each in node.get("expectCalls", ()):
        operation, mocks = each.get("operation"), each["mocks"]
        own = [nodes[name] for name in mocks if name in nodes and "/" not in name]
        if not operation or len(own) < len(mocks) or {each["kind"] for each in own} != {"mock"}:
            continue
        served = {name for mock in own for name in served_surfaces(mock, known)}
        ids = [
            found.operation_id
            for surface in known if surface.surface_id in served
            for found in surface.operations
        ]  # fmt: skip
        if operation not in ids:
            message = f'"{node["id"]}" expects calls of "{operation}", no operation of its mocks'
            advice = f"{known_names(ids)}{likely_name(operation, ids)}"
            return TopologyProblem("expect_calls_invalid", message + advice, **(at or {}))
    return None


def surface_problem(
    topology: Iterable[ResolvedNode], known: Sequence[Surface], calls: Mapping[str, Position]
) -> TopologyProblem | None:
    """Return what is wrong with the mocks that the suite itself declares; `calls` by node id."""
    nodes = {node["id"]: node for node in topology}
    for node in nodes.values():
        if node["kind"] == "mock" and "/" not in node["id"]:
            try:
                served_surfaces(node, known, calls.get(node["id"]))
            except TopologyProblem as problem:
                return problem
    problems = (
        _unknown_operation(node, nodes, known, calls.get(node["id"])) for node in nodes.values()
    )
    return next(filter(None, problems), None)
