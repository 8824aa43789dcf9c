"""Siblings of a topology as one node: `load-data-1…8` in the place of eight alike steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from string import digits
from typing import Any, Final

from apps.console.domain.display import GROUP_ORDER, counts, natural_key
from apps.console.domain.layout import NODE_WIDTH

GROUP_MIN: Final = 3  # fewer siblings stay single
_BAR_WIDTH: Final = 3  # of the colored edge of a node

_Node = Mapping[str, Any]


def group_siblings(nodes: Sequence[_Node], opened: Collection[str] = ()) -> list[_Node]:
    """Return the nodes with siblings joined, in the order of their first members.

    Siblings have names that differ only in the number at the end, one kind and level, and needs and
    dependents that are the same or siblings themselves. A group has the keys of a node,
    `groupId` and `members` (a mark for each); the members of a group named in `opened` have its
    `groupId`.
    """
    groups = _siblings(nodes)
    group_of = {id_: name for name, members in groups.items() for id_ in members}
    by_id = {node["id"]: node for node in nodes}
    closed = {id_: name for id_, name in group_of.items() if name not in opened}
    drawn_as = {id_: closed.get(id_, id_) for id_ in by_id}
    found: dict[str, _Node] = {}
    for node in nodes:
        drawn = drawn_as[node["id"]]
        if drawn in found:
            continue
        shown = node
        if drawn in groups:
            shown = _group(drawn, [by_id[id_] for id_ in groups[drawn]])
        found[drawn] = {
            **shown,
            **({"groupId": group_of[node["id"]]} if node["id"] in group_of else {}),
            **_edges(shown, drawn_as),
        }
    return list(found.values())


def _siblings(nodes: Sequence[_Node]) -> dict[str, list[str]]:
    """Return the members of each group, in natural order, by the group's id."""
    by_class: defaultdict[Hashable, list[str]] = defaultdict(list)
    for id_, found in _classes(nodes).items():
        by_class[found].append(id_)
    return {
        f"{first}…{_split(last)[1]}": members
        for members in (sorted(each, key=natural_key) for each in by_class.values())
        if len(members) >= GROUP_MIN
        for first, last in [(members[0], members[-1])]
    }


def _classes(nodes: Sequence[_Node]) -> dict[str, Hashable]:
    """Return a class for each id: the coarsest in which alike nodes have alike neighbors.

    It begins with the names and refines until nothing splits, as color refinement of graphs does.
    """
    dependents: defaultdict[str, list[str]] = defaultdict(list)
    for node in nodes:
        for need in node.get("dependsOn", ()):
            dependents[need].append(node["id"])
    classes: dict[str, Hashable] = {node["id"]: _likeness(node) for node in nodes}
    while True:
        refined = {
            node["id"]: (
                classes[node["id"]],
                frozenset(classes.get(need) for need in node.get("dependsOn", ())),
                frozenset(classes.get(need) for need in node.get("onFailure", ())),
                frozenset(classes[each] for each in dependents[node["id"]]),
            )
            for node in nodes
        }
        numbers: dict[Hashable, int] = {}
        for value in refined.values():
            numbers.setdefault(value, len(numbers))
        if len(numbers) == len(set(classes.values())):
            return classes
        classes = {id_: numbers[value] for id_, value in refined.items()}


def _likeness(node: _Node) -> Hashable:
    base, number = _split(node["id"])
    return base, bool(number), node["kind"], node.get("variant"), node["level"]


def _split(id_: str) -> tuple[str, str]:
    """Return an id as what stands before the number at its end, and the number or ""."""
    base = id_.rstrip(digits)
    return (base, id_[len(base) :]) if base else (id_, "")


def _group(name: str, members: Sequence[_Node]) -> _Node:
    """Return the node of a group; its status is the one that a reader must see first."""
    first = members[0]
    group = {key: first[key] for key in ("kind", "level") if key in first} | {
        "id": name,
        "name": name,
        "variant": first.get("variant", "run"),
        "members": _marks(members),
        "dependsOn": [need for member in members for need in member.get("dependsOn", ())],
        "onFailure": [need for member in members for need in member.get("onFailure", ())],
    }
    if "status" in first:
        group["status"] = min(counts(members), key=GROUP_ORDER.index)
    return group


def _marks(members: Sequence[_Node]) -> list[_Node]:
    """Return `id`, `status?`, `x` and `width` of a mark for each member along the node."""
    pitch = (NODE_WIDTH - _BAR_WIDTH) / len(members)
    gap = 1 if pitch > _BAR_WIDTH else 0
    return [
        {key: member[key] for key in ("id", "status") if key in member}
        | {"x": round(_BAR_WIDTH + index * pitch, 2), "width": round(pitch - gap, 2)}
        for index, member in enumerate(members)
    ]


def _edges(node: _Node, drawn_as: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the needs and triggers by the ids that are drawn, each once, without itself."""
    return {
        key: list(
            dict.fromkeys(
                drawn_as[need]
                for need in node.get(key, ())
                if need in drawn_as and drawn_as[need] != node["id"]
            )
        )
        for key in ("dependsOn", "onFailure")
    }
