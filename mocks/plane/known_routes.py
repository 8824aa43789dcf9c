"""From a path below `/mocks/rest/` to its operation, for surfaces that were found before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mocks.spaces import LiveSpace, Spaces

if TYPE_CHECKING:
    from mocks.engine.tables import CompiledOperation, CompiledSurface

_PREFIX: Final = "/mocks/rest/"
_PARTS: Final = 6  # "", mocks, rest, space, surface, path
_MOST: Final = 4_096


@dataclass(slots=True, eq=False)
class Route:
    """The operation that a path means; `below` is the path below its surface."""

    space: LiveSpace
    operation: CompiledOperation
    params: Mapping[str, str]
    below: str


@dataclass(slots=True, eq=False)
class _Place:
    """A surface, valid as long as the space has this content."""

    space: LiveSpace
    surface: CompiledSurface


class KnownRoutes:
    """Surfaces by the texts that name them in paths. It never waits."""

    def __init__(self, spaces: Spaces) -> None:
        self._spaces = spaces
        self._places: dict[tuple[str, str], _Place] = {}

    def find(self, method: str, path: str, now: float) -> Route | None:
        """Return the operation of a raw path if its surface is known, and freshly so."""
        if method == "OPTIONS" or not path.startswith(_PREFIX):
            return None
        parts = path.split("/", _PARTS - 1)
        if len(parts) != _PARTS:
            return None
        place = self._places.get((parts[3], parts[4]))
        if place is None or self._spaces.get(place.space.text, now) is not place.space:
            return None
        below = f"/{parts[5]}"
        found = place.surface.route(method, below)
        return Route(place.space, found[0], found[1], below) if found else None

    def add(self, parts: list[str], space: LiveSpace, surface: CompiledSurface) -> None:
        """Remember the surface that a path of these parts names."""
        if len(self._places) >= _MOST:
            self._places.clear()
        self._places[parts[3], parts[4]] = _Place(space, surface)
