"""Reads of mock spaces, and the source of the shared ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from apps.mocks.models import MockSpace
from apps.streams.api import release_stale_connection, then_disconnect
from apps.suites.api import current_suites, every_suite, hydrated_surfaces
from mocks.model.ports import SpaceContent
from mocks.model.spaces import SpaceName


def resets_of(spaces: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
    """Return the numbers of resets by space and surface, of those that had any."""
    found: dict[str, dict[str, int]] = {}
    rows = MockSpace.objects.filter(space__in=list(spaces))
    for space, surface_id, number in rows.values_list("space", "surface_id", "resets"):
        found.setdefault(space, {})[surface_id] = number
    return found


class SharedSpaces:
    """The shared space of each suite, with the suite as it is now."""

    def load(self, name: SpaceName) -> SpaceContent | None:
        suite = current_suites([name.suite_id]).get(name.suite_id)
        if suite is None:
            return None
        return SpaceContent(
            suite_id=suite.suite_id,
            title=suite.metadata.title,
            repository=suite.metadata.repository,
            generation=suite.digest,
            surfaces=hydrated_surfaces(suite),
            files=suite.package.files,
        )

    def generations(self, names: Sequence[SpaceName]) -> Mapping[SpaceName, str]:
        suites = current_suites([name.suite_id for name in names])
        return {name: suites[name.suite_id].digest for name in names if name.suite_id in suites}


shared_spaces: Final = SharedSpaces()


def suites_with_protos() -> list[str]:
    """Return the ids of the suites that have contracts of gRPC."""
    release_stale_connection()
    suites = then_disconnect(every_suite)
    return sorted(
        suite.suite_id
        for suite in suites
        if any(path.startswith("api/") and path.endswith(".proto") for path in suite.package.files)
    )
