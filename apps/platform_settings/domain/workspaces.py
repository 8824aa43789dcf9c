"""`workspaces` of the platform settings: the share that each has of the places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from apps.platform_settings.domain.fields import Fields
from apps.platform_settings.domain.wire import MAX_WEIGHT, WORKSPACE, names
from readers.yaml import Node

_KEYS: Final = names(WORKSPACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceShare:
    """A workspace gets places in proportion to its `weight`, and at most so many at once.

    A limit of 0 is none. A workspace that is not listed has the defaults.
    """

    workspace_id: str
    weight: int = 1
    max_concurrent_runs: int = 0
    max_concurrent_steps: int = 0


def read_shares(fields: Fields, root: Node) -> Iterator[WorkspaceShare]:
    """Yield the listed workspaces; errors go to `fields`."""
    seen: set[str] = set()
    for node, pointer in fields.entries(root, "", "workspaces"):
        if not fields.known_keys(node, pointer, _KEYS):
            continue
        workspace_id = _workspace_id(fields, node, pointer)
        if workspace_id in seen:
            fields.refuse(node, f"{pointer}/workspaceId", "duplicate", "workspaceId is used twice")
        seen.add(workspace_id)
        yield WorkspaceShare(
            workspace_id=workspace_id,
            weight=fields.whole(node, pointer, "weight", default=1, low=1, high=MAX_WEIGHT),
            max_concurrent_runs=fields.place_limit(node, pointer, "maxConcurrentRuns"),
            max_concurrent_steps=fields.place_limit(node, pointer, "maxConcurrentSteps"),
        )


def _workspace_id(fields: Fields, node: Node, pointer: str) -> str:
    """Return the id in the one form that compares; whether there is such a workspace is not asked.

    A file may be older or newer than the store, and an entry of a workspace that is gone does no
    harm.
    """
    text = fields.require_text(node, pointer, "workspaceId")
    try:
        return str(UUID(text)) if text else ""
    except ValueError:
        detail = "must be the id of a workspace, such as 01890a5d-ac96-774b-bcce-b302099a8057"
        fields.refuse_value(node, pointer, "workspaceId", detail)
        return text
