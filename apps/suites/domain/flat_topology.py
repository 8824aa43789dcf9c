"""The expansion of imported suites into one flat topology (reference: control-plane 8). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from apps.profiles.api import LaunchProfile, SecretRef
from apps.suites.domain.dependencies import Pin
from apps.suites.domain.problems import Position, TopologyProblem
from apps.suites.domain.topology import ResolvedNode, assign_levels
from kernel.ids import slug

PROFILE_HEADER: Final = "x-suite-profile"
IMPORT: Final = "suite"  # the kind of a node that stands for an imported suite


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSuite:
    """A suite that a topology contains, with the files of its steps.

    `path` is that of the import, such as `pay` or `shop/pay`; the steps are below it.
    `secret_refs` are those of its profile. `is_package`: it is a package of a registry.
    """

    path: str
    suite_id: str
    title: str
    repository: str
    version: str
    digest: str
    files: Mapping[str, bytes]
    secret_refs: tuple[SecretRef, ...]
    is_package: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandedImport:
    """What takes the place of an import node: the flat topology of the suite, and its origin."""

    pin: Pin
    suite: ImportedSuite
    profile: LaunchProfile
    topology: Sequence[ResolvedNode]


def flatten(
    nodes: Sequence[ResolvedNode],
    imports: Mapping[str, ExpandedImport],
    positions: Mapping[str, Position],
    *,
    env_prefixes: Sequence[str],
    max_nodes: int,
) -> tuple[ResolvedNode, ...]:
    """Return the topology without import nodes, by level and call order.

    `imports` are those of the import nodes, `positions` those of all calls, by the node's id.
    Raise TopologyProblem `too_many_nodes`, `duplicate_step` or `expect_calls_invalid`.
    """
    count = sum(len(imports[node["id"]].topology) if node["id"] in imports else 1 for node in nodes)
    if count > max_nodes:
        last = positions[list(imports)[-1]]
        raise TopologyProblem(
            "too_many_nodes", f"more than {max_nodes} nodes with the imported suites", **last
        )
    leaves = {path: _leaves(each.topology, path) for path, each in imports.items()}
    everyone = {path: _inside(each) for path, each in imports.items()}
    mocks = {path: _inside(each, "mock") for path, each in imports.items()}
    flat: list[ResolvedNode] = []
    for node in nodes:
        after, on_failure = (
            _expand_ids(node["after"], leaves),
            _expand_ids(node["onFailure"], everyone),
        )
        if node["id"] in imports:
            imported = imports[node["id"]]
            flat += [
                _import_node(each, imported, after, env_prefixes) for each in imported.topology
            ]
        else:
            own = _with_mocks(node, mocks, positions.get(node["id"], {}))
            flat.append(_with_edges(own, after, on_failure))
    _refuse_similar_ids(flat, positions)
    return assign_levels(flat)


def below(path: str, suite: ImportedSuite) -> ImportedSuite:
    """Return an imported suite as it is seen from the suite that imports its importer."""
    return replace(suite, path=f"{path}/{suite.path}")


def _leaves(topology: Sequence[ResolvedNode], path: str) -> list[str]:
    """Return the ids of the nodes on which no other node of the suite depends.

    Nodes that run only after a failure are left out: they are skipped in every good run, and so
    would be all that waits for them.
    """
    handlers: set[str] = set()
    for node in topology:  # in order of level
        if node["onFailure"] or not handlers.isdisjoint(node["after"]):
            handlers.add(node["id"])
    regular = [node for node in topology if node["id"] not in handlers]
    needed = {needed for node in regular for needed in node["dependsOn"]}
    return [f"{path}/{node['id']}" for node in regular if node["id"] not in needed]


def _expand_ids(ids: Iterable[str], imported: Mapping[str, Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(each for one in ids for each in imported.get(one, (one,))))


def _inside(imported: ExpandedImport, kind: str = "") -> list[str]:
    """Return the ids of an import's nodes, all or those of a kind."""
    nodes = [node for node in imported.topology if kind in ("", node["kind"])]
    return [f"{imported.suite.path}/{node['id']}" for node in nodes]


def _with_mocks(
    node: ResolvedNode, mocks: Mapping[str, Sequence[str]], at: Position
) -> ResolvedNode:
    """Return a node that names the mocks of imported suites in place of these."""
    changed: dict[str, object] = {}
    if "resetMocks" in node:
        changed["resetMocks"] = _expand_ids(node["resetMocks"], mocks)
    if "expectCalls" in node:
        changed["expectCalls"] = [
            {**each, "mocks": _expand_ids(each["mocks"], mocks)} for each in node["expectCalls"]
        ]
        for each in node["expectCalls"]:
            if not _expand_ids(each["mocks"], mocks):
                message = f'"{node["id"]}" expects calls of {each["mocks"][0]}, which has no mocks'
                raise TopologyProblem("expect_calls_invalid", message, **at)
    return cast("ResolvedNode", {**node, **changed}) if changed else node


def _move_mocks(node: ResolvedNode, path: str) -> dict[str, object]:
    """Return the references to mocks of a node that is imported at `path`."""
    moved: dict[str, object] = {}
    if "resetMocks" in node:
        moved["resetMocks"] = [f"{path}/{each}" for each in node["resetMocks"]]
    if "expectCalls" in node:
        moved["expectCalls"] = [
            {**each, "mocks": [f"{path}/{mock}" for mock in each["mocks"]]}
            for each in node["expectCalls"]
        ]
    return moved


def _with_edges(node: ResolvedNode, after: list[str], on_failure: list[str]) -> ResolvedNode:
    depends_on = list(dict.fromkeys([*after, *on_failure]))
    return {**node, "after": after, "onFailure": on_failure, "dependsOn": depends_on}


def _import_node(
    node: ResolvedNode, imported: ExpandedImport, after: Sequence[str], env_prefixes: Sequence[str]
) -> ResolvedNode:
    """Return a node of an imported suite as a node of the suite that imports it.

    `after` is what the import waits for; the roots of the imported suite wait for it.
    """
    path, pin = imported.suite.path, imported.pin
    own_after = [f"{path}/{each}" for each in node["after"]]
    on_failure = [f"{path}/{each}" for each in node["onFailure"]]
    first = [] if node["dependsOn"] else after
    moved = _with_edges(node, [*own_after, *first], on_failure)
    inner = cast("Mapping[str, object]", node)
    members: dict[str, object] = {
        "id": f"{path}/{node['id']}",
        "name": f"{path}/{node['id']}",
        **_move_mocks(node, path),
        "runtimeEnv": {
            **node.get("runtimeEnv", {}),
            **imported.profile.env,
            **imported.profile.services.get(node["name"], {}),
            **imported.profile.services.get(node["id"], {}),
            **pin.inputs,
            **({} if "dependencyAlias" in inner else _variables(imported, env_prefixes)),
        },
    }
    if "dependencyAlias" not in inner:
        members |= _origin(imported)
        if node["kind"] == "mock" and imported.profile.file_name:
            members["runtimeHeaders"] = {PROFILE_HEADER: imported.profile.file_name}
    return cast("ResolvedNode", {**moved, **members})


def _origin(imported: ExpandedImport) -> dict[str, object]:
    suite, pin = imported.suite, imported.pin
    optional = {"digest": pin.digest, "runtimeProfile": imported.profile.file_name}
    return {
        "sourceSuiteId": suite.suite_id,
        "sourceSuiteTitle": suite.title,
        "sourceRepository": suite.repository,
        "sourceVersion": suite.version,
        "dependencyAlias": pin.alias,
        "resolvedRef": pin.resolved,
        **{key: value for key, value in optional.items() if value},
    }


def _variables(imported: ExpandedImport, prefixes: Sequence[str]) -> dict[str, str]:
    pin = imported.pin
    values = {
        "ALIAS": pin.alias,
        "SUITE": imported.suite.suite_id,
        "REF": pin.ref,
        "PROFILE": imported.profile.file_name,
        "RESOLVED": pin.resolved,
        "DIGEST": pin.digest,
    }
    return {
        f"{prefix}_DEPENDENCY_{name}": text for prefix in prefixes for name, text in values.items()
    }


def _refuse_similar_ids(nodes: Sequence[ResolvedNode], positions: Mapping[str, Position]) -> None:
    """Raise TopologyProblem for two ids, or two import paths, of which containers share a name."""
    seen: dict[str, str] = {}
    paths = dict.fromkeys(node["id"].rpartition("/")[0] for node in nodes)
    for group in ([node["id"] for node in nodes], [path for path in paths if path]):
        seen.clear()
        for each in group:
            earlier = seen.setdefault(slug(each), each)
            if earlier != each:
                at = positions.get((each if "/" in each else earlier).split("/")[0], {})
                raise TopologyProblem(
                    "duplicate_step", f'"{each}" is too similar to "{earlier}"', **at
                )
