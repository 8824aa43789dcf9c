"""What can be said of a run's steps from its topology and their statuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.executions.domain.states import TERMINAL_STEP, StepStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """The edges of one topology node, as on the wire: step ids."""

    depends_on: tuple[str, ...]
    on_failure: tuple[str, ...]
    continue_on_failure: bool


def node_shapes(topology: Sequence[Mapping[str, Any]]) -> dict[str, NodeShape]:
    """Step id → its edges; `topology` holds wire nodes (reference: control-plane 9)."""
    return {
        node["id"]: NodeShape(
            depends_on=tuple(node["dependsOn"]),
            on_failure=tuple(node.get("onFailure", ())),
            continue_on_failure=bool(node.get("continueOnFailure", False)),
        )
        for node in topology
    }


def waiting_on(node: NodeShape, status: str, statuses: Mapping[str, str]) -> list[str]:
    """The step ids that a pending step still waits for; nothing for every other step."""
    if status != StepStatus.PENDING:
        return []
    needs = dict.fromkeys((*node.depends_on, *node.on_failure))
    return [need for need in needs if statuses.get(need) not in TERMINAL_STEP]
