"""Reaps: the removal of environments in two phases, mark and sweep.

(reference: control-plane 17)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from apps.environments.domain.documents import CleanupResult
from apps.environments.domain.inventory import SeenResource
from kernel.errors import NotFound, PlatformError

CANCEL_WITHIN: Final = timedelta(seconds=30)
TAKEN_WITHIN: Final = timedelta(seconds=10)
SWEPT_WITHIN: Final = timedelta(seconds=60)  # what a caller waits for; the sweep itself goes on
MARK_LEASE: Final = timedelta(seconds=10)
SWEEP_LEASE: Final = timedelta(seconds=15)
ABANDONED_AFTER: Final = timedelta(minutes=10)
AUTOMATIC_AFTER: Final = timedelta(minutes=10)  # that a zombie is one
KEPT_FOR: Final = timedelta(days=1)
SHOWN_FOR: Final = timedelta(seconds=60)
MOST_WARNINGS: Final = 50
ALL_ENVIRONMENTS: Final = "all-managed-sandboxes"


class SandboxNotFound(NotFound):
    """The environment is unknown or of another workspace; the response does not tell which."""

    code = "sandbox_not_found"

    def __init__(self) -> None:
        super().__init__("environment not found")


class ReapInProgress(PlatformError):
    code = "reap_in_progress"

    def __init__(self, target: str) -> None:
        super().__init__(f"a reap of {target} is in progress; wait for its result")


class RuntimeNotReached(PlatformError):
    """No runner lists its runtime, or none takes the reap."""

    code = "container_runtime_unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPart:
    """What one runner has to remove: marked resources that the supervisors `agents` reach.

    `run_ids`: runs whose resources that appear meanwhile are removed as well.
    """

    id: str
    agents: frozenset[str]
    resources: tuple[SeenResource, ...]
    only_zombies: bool
    run_ids: frozenset[str]


@dataclass(slots=True)
class SweepProgress:
    """Which resources are gone, as `(kind, id)`, and why others are not."""

    gone: set[tuple[str, str]] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)

    def count(self, kind: str) -> int:
        return sum(each == kind for each, _ in self.gone)

    def warn(self, text: str) -> None:
        if text not in self.warnings and len(self.warnings) < MOST_WARNINGS:
            self.warnings.append(text)


def unite_marks(
    before: Iterable[SeenResource], after: Iterable[SeenResource]
) -> list[SeenResource]:
    """Return the resources that were there before the runs were canceled, and those since."""
    found = {(each.kind, each.resource.id): each for each in before}
    found |= {(each.kind, each.resource.id): each for each in after}
    return list(found.values())


def split_by_reach(marked: Iterable[SeenResource]) -> dict[frozenset[str], list[SeenResource]]:
    """Return the marked resources by the set of supervisors that reach them."""
    parts: dict[frozenset[str], list[SeenResource]] = defaultdict(list)
    for each in marked:
        parts[each.agents].append(each)
    return dict(parts)


def overlaps(target: str, other: str) -> bool:
    """Return whether two reaps may touch the same resources."""
    return target == other or ALL_ENVIRONMENTS in (target, other)


def cleanup_result(
    target: str,
    counts: Sequence[int],
    *,
    warnings: Iterable[str] = (),
    dry_run: bool = False,
) -> CleanupResult:
    """Return the result; `counts` are containers, networks and volumes."""
    containers, networks, volumes = counts
    return {
        "scope": scope_of(target),
        "target": target,
        "removedContainers": containers,
        "removedNetworks": networks,
        "removedVolumes": volumes,
        "warnings": list(warnings),
        "dryRun": dry_run,
    }


def scope_of(target: str) -> str:
    return "global" if target == ALL_ENVIRONMENTS else "sandbox"
