"""The readiness probe of agents: workers are online, and no background loop fails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from apps.agents.domain.agent import Agent
from apps.agents.selectors import online_agents
from apps.health.api import Probe, ProbeResult
from apps.platform_settings.api import backends

_NAMED: Final = 5  # agents with failing loops; of the others, only how many


def agents() -> ProbeResult:
    """Return degraded while a remote-agent backend has no online worker, or a loop fails.

    The loops are those of the last heartbeats of online runners and workers.
    """
    online = online_agents()
    wanted = [each for each in backends() if each.kind == "remote-agent"]
    workers = {
        each.backend_id: sum(
            agent.kind == "worker" and each.backend_id in agent.backends for agent in online
        )
        for each in wanted
    }
    problems = list(_failures(online))
    if alone := [each.label for each in wanted if not workers[each.backend_id]]:
        problems.insert(0, f"no worker is online for {', '.join(alone)}")
    if problems:
        return ProbeResult(ready=False, detail="; ".join(problems))
    if not wanted:
        return ProbeResult(ready=True, detail="no backend is for workers", disabled=True)
    count = sum(workers.values())
    return ProbeResult(ready=True, detail=f"{count} worker{'s' * (count != 1)} online")


def _failures(online: Sequence[Agent]) -> Iterable[str]:
    failing = [agent for agent in online if agent.failing_loops]
    for agent in failing[:_NAMED]:
        loops = agent.failing_loops
        noun = f"loop {loops[0]} is" if len(loops) == 1 else f"loops {', '.join(loops)} are"
        yield f"{agent.agent_id}: {noun} failing"
    if len(failing) > _NAMED:
        yield f"loops of {len(failing) - _NAMED} more are failing"


AGENTS: Final = Probe(name="agents", required=False, check=agents)
