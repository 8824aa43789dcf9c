"""Readiness of agents: every backend of workers has one that is online (not required)."""

from __future__ import annotations

from apps.agents.selectors import online_agents
from apps.platform_settings.api import Backend, backends
from apps.system.api import ProbeResult


def agents() -> ProbeResult:
    """Degraded while an enabled remote-agent backend has no online worker; else how many it has."""
    wanted = [each for each in backends() if each.kind == "remote-agent"]
    if not wanted:
        return ProbeResult(ready=True, detail="no backend is for workers", disabled=True)
    alone = [each.label for each in wanted if not _workers_of(each)]
    if alone:
        return ProbeResult(ready=False, detail=f"no worker is online for {', '.join(alone)}")
    online = sum(map(_workers_of, wanted))
    return ProbeResult(ready=True, detail=f"{online} worker{'s' * (online != 1)} online")


def _workers_of(backend: Backend) -> int:
    return sum(agent.kind == "worker" for agent in online_agents(backend.backend_id))
