"""Readiness of agents: those of workers' backends are online, and no loop fails (not required)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from apps.agents.domain.agent import Agent
from apps.agents.selectors import online_agents
from apps.platform_settings.api import Backend, backends
from apps.system.api import Probe, ProbeResult

_NAMED: Final = 5  # agents with failing loops; of the others, only how many


def agents() -> ProbeResult:
    """Degraded while an enabled remote-agent backend has no online worker, or a loop fails.

    The loops are those of online runners and workers, as their last heartbeats say.
    """
    online = online_agents()
    wanted = [each for each in backends() if each.kind == "remote-agent"]
    workers = {each.backend_id: _workers_of(each, online) for each in wanted}
    problems = [*_without_worker(wanted, workers), *_failures(online)]
    if problems:
        return ProbeResult(ready=False, detail="; ".join(problems))
    if not wanted:
        return ProbeResult(ready=True, detail="no backend is for workers", disabled=True)
    count = sum(workers.values())
    return ProbeResult(ready=True, detail=f"{count} worker{'s' * (count != 1)} online")


def _workers_of(backend: Backend, online: Sequence[Agent]) -> int:
    return sum(agent.kind == "worker" and backend.backend_id in agent.backends for agent in online)


def _without_worker(wanted: Sequence[Backend], workers: dict[str, int]) -> Iterable[str]:
    alone = [each.label for each in wanted if not workers[each.backend_id]]
    if alone:
        yield f"no worker is online for {', '.join(alone)}"


def _failures(online: Sequence[Agent]) -> Iterable[str]:
    failing = [agent for agent in online if agent.failing_loops]
    for agent in failing[:_NAMED]:
        yield f"{agent.agent_id}: {_sentence(agent.failing_loops)}"
    if len(failing) > _NAMED:
        yield f"loops of {len(failing) - _NAMED} more are failing"


def _sentence(loops: Sequence[str]) -> str:
    if len(loops) == 1:
        return f"loop {loops[0]} is failing"
    return f"loops {', '.join(loops)} are failing"


AGENTS: Final = Probe(name="agents", required=False, check=agents)
