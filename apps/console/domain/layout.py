"""The drawing of a topology: levels become columns from left to right, with edges between them.

This is a layered drawing after Sugiyama. Long edges get a waypoint in every column that they pass,
and columns are ordered by the mean position of their neighbors, so that few edges cross and none
runs through a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

NODE_WIDTH, NODE_HEIGHT = 148, 40
COLUMN_GAP, ROW_GAP, MARGIN = 34, 12, 4
WAYPOINT_HEIGHT = 10
SWEEPS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A drawn node; `x` and `y` are its upper left corner in SVG units."""

    id: str
    x: float
    y: float
    node: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A drawn dependency; `path` is the `d` of an SVG path, `on_failure` marks a trigger."""

    source: str
    target: str
    path: str
    on_failure: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    width: float
    height: float
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the ids of the groups of siblings, closed and open ones."""
        return tuple(
            dict.fromkeys(box.node["groupId"] for box in self.boxes if "groupId" in box.node)
        )

    @property
    def has_closed_group(self) -> bool:
        return any("members" in box.node for box in self.boxes)


@dataclass(slots=True)
class _Item:
    """A node, or the waypoint of a long edge, in one column."""

    key: str
    height: float
    node: Mapping[str, Any] | None = None
    left: list[_Item] = field(default_factory=list)
    right: list[_Item] = field(default_factory=list)
    position: float = 0.0
    x: float = 0.0
    y: float = 0.0


def draw(nodes: Sequence[Mapping[str, Any]]) -> Drawing:
    """Draw nodes of a topology or steps: `id`, `level`, `dependsOn`, `onFailure?`.

    Dependencies on unknown ids are left out. The same input gives the same drawing.
    """
    columns = [_column(nodes, level) for level in sorted({node["level"] for node in nodes})]
    items = {item.key: (item, index) for index, column in enumerate(columns) for item in column}
    routes = list(_routes(nodes, items, columns))
    _order(columns)
    height = _place(columns)
    return Drawing(
        width=2 * MARGIN + len(columns) * (NODE_WIDTH + COLUMN_GAP) - COLUMN_GAP if columns else 0,
        height=height,
        boxes=tuple(
            Box(id=item.key, x=item.x, y=item.y, node=item.node)
            for column in columns
            for item in column
            if item.node is not None
        ),
        edges=tuple(_edge(route, on_failure=failure) for route, failure in routes),
    )


def _column(nodes: Sequence[Mapping[str, Any]], level: int) -> list[_Item]:
    return [
        _Item(key=node["id"], height=NODE_HEIGHT, node=node)
        for node in nodes
        if node["level"] == level
    ]


def _routes(
    nodes: Sequence[Mapping[str, Any]],
    items: Mapping[str, tuple[_Item, int]],
    columns: list[list[_Item]],
) -> Iterable[tuple[list[_Item], bool]]:
    """Yield each dependency as its items, source first, and add waypoints to the columns.

    Long edges of one source share their waypoints, so that they leave as one line and fork late.
    """
    waypoints: dict[tuple[str, int, bool], _Item] = {}
    for node in nodes:
        target, last = items[node["id"]]
        triggers = set(node.get("onFailure", ()))
        for need in node.get("dependsOn", ()):
            source, first = items.get(need, (target, last))
            if first >= last:
                continue
            passed = [
                _waypoint(waypoints, (need, index, need in triggers), columns)
                for index in range(first + 1, last)
            ]
            route = [source, *passed, target]
            for here, there in pairwise(route):
                here.right.append(there)
                there.left.append(here)
            yield route, need in triggers


def _waypoint(
    waypoints: dict[tuple[str, int, bool], _Item],
    key: tuple[str, int, bool],
    columns: list[list[_Item]],
) -> _Item:
    if key not in waypoints:
        waypoints[key] = _Item(key=f"{key[0]}>{key[2]}", height=WAYPOINT_HEIGHT)
        columns[key[1]].append(waypoints[key])
    return waypoints[key]


def _order(columns: list[list[_Item]]) -> None:
    """Sort each column by the mean position of its neighbors, left to right and back."""
    for column in columns:
        _number(column)
    for sweep in range(SWEEPS):
        rightward = sweep % 2 == 0
        for column in columns if rightward else reversed(columns):
            column.sort(key=lambda item: _mean(item.left if rightward else item.right, item))
            _number(column)


def _number(column: list[_Item]) -> None:
    for index, item in enumerate(column):
        item.position = index - (len(column) - 1) / 2


def _mean(neighbors: Sequence[_Item], item: _Item) -> float:
    if not neighbors:
        return item.position
    return sum(neighbor.position for neighbor in neighbors) / len(neighbors)


def _place(columns: list[list[_Item]]) -> float:
    """Set the coordinates, with centered columns; return the height of the drawing."""
    heights = [
        sum(item.height for item in column) + ROW_GAP * (len(column) - 1) for column in columns
    ]
    tallest = max(heights, default=0)
    for index, (column, height) in enumerate(zip(columns, heights, strict=True)):
        y = MARGIN + (tallest - height) / 2
        for item in column:
            item.x, item.y = MARGIN + index * (NODE_WIDTH + COLUMN_GAP), y
            y += item.height + ROW_GAP
    return tallest + 2 * MARGIN if columns else 0


def _edge(route: list[_Item], *, on_failure: bool) -> Edge:
    """Return curves from the right of each item to the left of the next, flat at waypoints."""
    x, y = route[0].x + NODE_WIDTH, _middle(route[0])
    path = [f"M{x:g} {y:g}"]
    for item in route[1:]:
        end_x, end_y, bend = item.x, _middle(item), COLUMN_GAP / 2
        path.append(f"C{x + bend:g} {y:g} {end_x - bend:g} {end_y:g} {end_x:g} {end_y:g}")
        x, y = end_x, end_y
        if item.node is None:
            x += NODE_WIDTH
            path.append(f"H{x:g}")
    return Edge(
        source=route[0].key, target=route[-1].key, path="".join(path), on_failure=on_failure
    )


def _middle(item: _Item) -> float:
    return item.y + item.height / 2
