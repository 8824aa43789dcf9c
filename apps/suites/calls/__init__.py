"""The calls of suite.star, which register kinds of nodes; importing the package loads them."""

from __future__ import annotations

from apps.suites.domain.calls import node_kinds
from kernel.registry import import_plugins

import_plugins(__name__, __path__)


def container_kinds() -> tuple[str, ...]:
    """Return the kinds whose steps supervisors run; the others end in the control plane."""
    kinds = ((name, node_kinds[name]) for name in node_kinds)
    return tuple(name for name, kind in kinds if kind.functions and kind.in_container)


__all__ = ["container_kinds", "node_kinds"]
