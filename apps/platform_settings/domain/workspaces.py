"""`workspaces` of the platform settings: the share that each has of the places."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceShare:
    """A workspace gets places in proportion to its `weight`, and at most so many at once.

    A limit of 0 is none. A workspace that is not listed has the defaults.
    """

    workspace_id: str
    weight: int = 1
    max_concurrent_runs: int = 0
    max_concurrent_steps: int = 0
