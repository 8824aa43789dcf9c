"""Which backends a supervisor serves: its own list, cut by kind and by the routing tags."""

from __future__ import annotations

from apps.executions.domain.reports import Supervisor
from apps.executions.domain.routing import carries
from apps.platform_settings.api import backends as configured_backends


def routed_backends(supervisor: Supervisor) -> dict[str, str]:
    """Backend id → kind, of those whose steps this supervisor may claim.

    (reference: control-plane 15.2)
    """
    return {
        backend.backend_id: backend.kind
        for backend in configured_backends()
        if backend.enabled
        and backend.backend_id in supervisor.backends
        and backend.kind in supervisor.kinds
        and carries(backend.routing_tags, supervisor.labels)
    }
