"""Roles of the members of a workspace."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What a member may do; each role includes the ones before it."""

    VIEWER = "viewer"  # reads runs, logs and artifacts
    RUNNER = "runner"  # launches, cancels and deletes runs
    ADMIN = "admin"  # invites, removes, and changes roles of members

    def includes(self, other: Role) -> bool:
        return _ORDER.index(self) >= _ORDER.index(other)


_ORDER: Final = tuple(Role)
