"""Exports from the shared directory that two steps may write at once.

(reference: control-plane 7.4, 14.3)

A relative path is a step's own, and so is an absolute one elsewhere in its container.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from apps.suites.domain.problems import Position, TopologyProblem
from apps.suites.domain.topology import ResolvedNode
from apps.suites.domain.values import REPORT_FORMATS

SHARED_DIRECTORY: Final = PurePosixPath("/partita/workspace")
_GLOB: Final = re.compile(r"[*?]")


class ExportClash(NamedTuple):
    """Two steps, in the order of the topology, and the path that the second one exports.

    `is_certain`: both export this very path, and one of them reads it as a test report.
    """

    first: str
    second: str
    path: str
    is_certain: bool

    @property
    def message(self) -> str:
        return (
            f"it exports {self.path} from the directory that all steps share, as {self.first} "
            f"does, and both may run at once: each would get the file that was written last; "
            f"write it to the directory in which the step starts, and export a relative path"
        )


class _SharedExport(NamedTuple):
    step: str
    path: str
    is_report: bool


def find_export_clashes(topology: Sequence[ResolvedNode]) -> Iterator[ExportClash]:
    """Yield the clashes of one suite, whose nodes come in the order of their levels."""
    exports = [export for node in topology for export in _shared_exports(node)]
    if not exports:
        return
    over = _steps_over_before(topology)
    for first, second in combinations(exports, 2):
        is_ordered = first.step in over[second.step] or second.step in over[first.step]
        if first.step == second.step or is_ordered or not _may_overlap(first.path, second.path):
            continue
        is_certain = first.path == second.path and (first.is_report or second.is_report)
        yield ExportClash(first.step, second.step, second.path, is_certain)


def refuse_export_clashes(
    topology: Sequence[ResolvedNode], positions: Mapping[str, Position]
) -> None:
    """Raise TopologyProblem for a clash that is certain, at the later step."""
    for clash in find_export_clashes(topology):
        if clash.is_certain:
            message = f"{clash.second}: {clash.message}"
            raise TopologyProblem("export_clash", message, **positions.get(clash.second, {}))


def _shared_exports(node: ResolvedNode) -> Iterator[_SharedExport]:
    for export in node.get("artifactExports", ()):
        path = PurePosixPath(export["path"])
        if path.is_relative_to(SHARED_DIRECTORY):
            yield _SharedExport(node["id"], str(path), export["format"] in REPORT_FORMATS)


def _steps_over_before(topology: Sequence[ResolvedNode]) -> dict[str, set[str]]:
    """Return the steps that have ended when a step starts; services run until the run ends."""
    before: dict[str, set[str]] = {}
    for node in topology:
        needs = [need for need in node["dependsOn"] if need in before]
        before[node["id"]] = {*needs}.union(*(before[need] for need in needs))
    services = {node["id"] for node in topology if node["kind"] == "service"}
    return {step: steps - services for step, steps in before.items()}


def _may_overlap(one: str, other: str) -> bool:
    """Return whether a file may match both; `*` counts as any number of folders here."""
    if fnmatchcase(one, other) or fnmatchcase(other, one):
        return True
    heads = [_GLOB.split(path)[0] for path in (one, other)]
    both_glob = all(_GLOB.search(path) for path in (one, other))
    return both_glob and (heads[0].startswith(heads[1]) or heads[1].startswith(heads[0]))
