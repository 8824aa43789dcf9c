"""The parts of a suite's page: its tabs, its dependencies as a tree, its surfaces in brief."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

MAX_TREE_DEPTH: Final = 6
MAX_TREE_NODES: Final = 200
# What contracts write in plain text all the same; `<id>` and the like stay.
_TAG: Final = re.compile(
    r"</?(?:a|b|br|code|div|em|h[1-6]|i|li|ol|p|pre|span|strong|ul)(?:\s[^<>]*)?/?>", re.IGNORECASE
)


_TABS: Final = {
    "overview": "Runs and profiles",
    "readme": "README",
    "topology": "Topology",
    "api": "API",
    "imports": "Imported suites",
    "source": "Source",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteTab:
    """A tab of a suite's page; `count` is the number of things in it, 0 if none is shown."""

    name: str
    label: str
    template: str
    count: int = 0
    is_shown: bool = False


def suite_tabs(counts: Mapping[str, int], wanted: str, first: str) -> tuple[SuiteTab, ...]:
    """Return the tabs of a suite's page in their order, with `wanted` shown, else `first`.

    `counts` has an entry for each tab that the suite has besides runs and source.
    """
    names = [name for name in _TABS if name in {"overview", "source", *counts}]
    shown = wanted if wanted in names else first
    return tuple(
        SuiteTab(
            name=name,
            label=_TABS[name],
            template=f"console/_suite_{name}.html",
            count=counts.get(name, 0),
            is_shown=name == shown,
        )
        for name in names
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyNode:
    """An imported suite and what it imports itself; `is_repeated` if it stands further up too."""

    dependency: Mapping[str, Any]
    below: tuple[DependencyNode, ...] = ()
    is_repeated: bool = False


class DependencyTree:
    """Builds the tree of one suite; `definitions` are the known suites by id."""

    def __init__(self, definitions: Mapping[str, Mapping[str, Any]]) -> None:
        self._definitions = definitions
        self._left = MAX_TREE_NODES

    def below(self, suite: Mapping[str, Any]) -> tuple[DependencyNode, ...]:
        return self._below(suite, (suite["id"],))

    def _below(self, suite: Mapping[str, Any], chain: Sequence[str]) -> tuple[DependencyNode, ...]:
        made = []
        for dependency in suite.get("resolvedDependencies", ()):
            self._left -= 1
            if self._left < 0:
                break
            made.append(self._node(dependency, chain))
        return tuple(made)

    def _node(self, dependency: Mapping[str, Any], chain: Sequence[str]) -> DependencyNode:
        suite_id = dependency["suiteId"]
        if suite_id in chain or len(chain) >= MAX_TREE_DEPTH:
            return DependencyNode(dependency=dependency, is_repeated=True)
        known = self._definitions.get(suite_id, {"id": suite_id})
        return DependencyNode(dependency=dependency, below=self._below(known, (*chain, suite_id)))


def surface_brief(surface: Mapping[str, Any]) -> dict[str, Any]:
    """Return a surface with its numbers, without its operations."""
    operations = surface["operations"]
    return {
        "surface": {key: value for key, value in surface.items() if key != "operations"},
        "count": len(operations),
        "mocked": sum(1 for each in operations if "mockPath" in each),
        "problems": sum(1 for each in operations if each["mockMetadata"]["problems"]),
    }


def operation_row(operation: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the list of operations shows of one."""
    return {
        "operation": operation,
        "summary": _TAG.sub("", operation["summary"]),
        "is_mocked": "mockPath" in operation,
        "examples": len(operation["exchanges"]),
        "problems": operation["mockMetadata"]["problems"],
    }


def warnings_by_file(warnings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the warnings grouped by file, in order."""
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for warning in warnings:
        grouped.setdefault(warning.get("file", ""), []).append(warning)
    return [{"file": file, "warnings": listed} for file, listed in grouped.items()]
