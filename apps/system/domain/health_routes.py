"""The routes of health and readiness, by pattern: open to all, not audited, up while draining."""

from __future__ import annotations

from typing import Final

HEALTH_ROUTES: Final = frozenset(
    f"{prefix}/{route}"
    for prefix in ("", "/api/v1/system")
    for route in ("healthz", "readyz", "readyz/{subsystem}")
)


def is_health_route(route: str) -> bool:
    return route in HEALTH_ROUTES
