"""Registered and online agents, and the readiness probe: workers are online, no loop fails."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from django.db.models import QuerySet

from apps.agents import models
from apps.agents.domain.agent import OFFLINE_AFTER, Agent, AgentNotFound
from apps.agents.domain.availability import state_of, waits_for
from apps.health.api import Probe, ProbeResult
from apps.platform_settings.api import Backend, BackendState, backends
from kernel import clock

_NAMED: Final = 5  # agents with failing loops; of the others, only how many


def token_hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def authenticate(token: str) -> Agent | None:
    """Return the worker with this token, unless it registered again or was removed."""
    if not token:
        return None
    row = registered_agents().filter(token_sha256=token_hash(token)).first()
    return as_agent(row) if row else None


def get_agent(agent_id: str) -> Agent:
    """Raises AgentNotFound."""
    row = registered_agents().filter(agent_id=agent_id).first()
    if row is None:
        raise AgentNotFound
    return as_agent(row)


def list_agents() -> tuple[Agent, ...]:
    """Return every registered supervisor, by name."""
    return tuple(as_agent(row) for row in registered_agents().order_by("name", "agent_id"))


def online_agents(backend_id: str | None = None) -> tuple[Agent, ...]:
    """Return the agents with a heartbeat in the last 30 s, by name; optionally of one backend."""
    return agents_seen_since(clock.now() - OFFLINE_AFTER, backend_id)


def agents_seen_since(instant: datetime, backend_id: str | None = None) -> tuple[Agent, ...]:
    rows = registered_agents().filter(last_heartbeat_at__gt=instant).order_by("name", "agent_id")
    agents = (as_agent(row) for row in rows)
    return tuple(agent for agent in agents if backend_id is None or backend_id in agent.backends)


def is_online(agent_id: str) -> bool:
    recently = clock.now() - OFFLINE_AFTER
    return registered_agents().filter(agent_id=agent_id, last_heartbeat_at__gt=recently).exists()


def is_draining(agent_id: str) -> bool:
    """Return whether an administrator drains the agent: it takes no new runs."""
    return registered_agents().filter(agent_id=agent_id, drained_at__isnull=False).exists()


def registered_agents() -> QuerySet[models.Agent, models.Agent]:
    return models.Agent.objects.filter(removed_at=None)


def as_agent(row: models.Agent) -> Agent:
    return Agent(
        agent_id=row.agent_id,
        incarnation=row.incarnation,
        kind="worker" if row.kind == "worker" else "runner",
        name=row.name,
        host_url=row.host_url,
        capabilities=tuple(row.capabilities),
        backends=tuple(row.backends),
        labels=dict(row.labels),
        version=row.version,
        registered_at=row.registered_at,
        last_heartbeat_at=row.last_heartbeat_at,
        runtime_available=row.runtime_available,
        runs=tuple(row.runs),
        running_jobs=row.running_jobs,
        host_id=row.host_id,
        pid=row.pid,
        process_started_at=row.process_started_at,
        failing_loops=tuple(row.failing_loops or ()),  # MongoDB: older processes store none
        drained_at=row.drained_at,
        drained_by=row.drained_by or "",  # MongoDB: older processes store none
    )


def backend_states(backends: Iterable[Backend]) -> dict[str, BackendState]:
    """Return what the supervisors of each backend tell, by its id."""
    known, since = list_agents(), clock.now() - OFFLINE_AFTER
    online = [agent for agent in known if agent.last_heartbeat_at > since]
    reason_to_wait = reasons_to_wait(known)
    return {
        each.backend_id: replace(state_of(each, known, online), waits_for=reason_to_wait(each))
        for each in backends
    }


def reasons_to_wait(agents: Sequence[Agent] | None = None) -> Callable[[Backend], str]:
    """Return a function that tells what a backend waits for, as of now; "" if it is available.

    `agents` are all of them, where they were read already.
    """
    known, now = list_agents() if agents is None else agents, clock.now()
    return lambda backend: waits_for(backend, known, now)


def agents_ready() -> ProbeResult:
    """Return degraded while a remote-agent backend has no online worker, or a loop fails.

    The loops are those of the last heartbeats of online runners and workers.
    """
    known, now = list_agents(), clock.now()
    online = [agent for agent in known if agent.is_online(now)]
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
    problems += [
        f"{each.label} waits: {reason}"
        for each in wanted
        if workers[each.backend_id] and (reason := waits_for(each, known, now))
    ]
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


AGENTS: Final = Probe(name="agents", required=False, check=agents_ready)
