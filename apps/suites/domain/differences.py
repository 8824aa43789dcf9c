"""What a new lock changes in the suite that has it (reference: control-plane 8). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict, cast

from apps.suites.domain.topology import ResolvedNode

# Members that change with the lock itself, whatever the imported suite says.
_OF_THE_LOCK: Final = ("digest", "resolvedRef", "sourceVersion", "level")
_ENV: Final = ("env", "runtimeEnv")
_DEPENDENCY_MARK: Final = "_DEPENDENCY_"


class Change(TypedDict):
    """A value before and after; "" where there is none."""

    name: str
    before: str
    after: str


class NodeChange(TypedDict):
    """A node with the names of its members that differ."""

    id: str
    members: list[str]


class NodeEnvChange(TypedDict):
    id: str
    changes: list[Change]


class LockDifference(TypedDict):
    """What differs under a new lock; every list is empty where nothing does.

    `contracts` are files below `api/`: `<import path>/<file>` and their digests.
    """

    added: list[str]
    removed: list[str]
    changed: list[NodeChange]
    images: list[Change]
    env: list[NodeEnvChange]
    contracts: list[Change]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedState:
    """A flat topology, and the digests of the contracts in it by their path."""

    topology: Sequence[ResolvedNode]
    contracts: Mapping[str, str]


def difference(before: LockedState, after: LockedState) -> LockDifference:
    """Compare by id; the order is that of the topologies, `contracts` by path."""
    old = {node["id"]: cast("Mapping[str, object]", node) for node in before.topology}
    new = {node["id"]: cast("Mapping[str, object]", node) for node in after.topology}
    both = [node_id for node_id in new if node_id in old]
    changed: list[NodeChange] = []
    images: list[Change] = []
    env: list[NodeEnvChange] = []
    for node_id in both:
        if members := _members(old[node_id], new[node_id]):
            changed.append({"id": node_id, "members": members})
        images += _changes({node_id: _image(old[node_id])}, {node_id: _image(new[node_id])})
        if differs := _changes(_env(old[node_id]), _env(new[node_id])):
            env.append({"id": node_id, "changes": differs})
    return {
        "added": [node_id for node_id in new if node_id not in old],
        "removed": [node_id for node_id in old if node_id not in new],
        "changed": changed,
        "images": images,
        "env": env,
        "contracts": _changes(before.contracts, after.contracts),
    }


def is_different(found: LockDifference) -> bool:
    return any(found.values())


def _members(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    compared = (key for key in {**old, **new} if key not in (*_OF_THE_LOCK, *_ENV, "image"))
    return sorted(key for key in compared if old.get(key) != new.get(key))


def _image(node: Mapping[str, object]) -> str:
    return str(node.get("image", ""))


def _env(node: Mapping[str, object]) -> dict[str, str]:
    """Return the variables of a node without those that name the import itself."""
    found: dict[str, str] = {}
    for member in _ENV:
        found |= cast("Mapping[str, str]", node.get(member, {}))
    return {name: text for name, text in found.items() if _DEPENDENCY_MARK not in name}


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    names: Iterable[str] = sorted({*before, *after})
    return [
        {"name": name, "before": before.get(name, ""), "after": after.get(name, "")}
        for name in names
        if before.get(name, "") != after.get(name, "")
    ]
