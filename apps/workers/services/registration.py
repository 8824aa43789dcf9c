"""Registration and removal of workers, with their jobs (reference: control-plane 15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apps.agents import api as agents
from apps.executions import api as executions
from kernel.agent_protocol import Job

BACKEND_KINDS: Final = ("remote-agent",)


def supervisor_of(agent: agents.Agent) -> executions.SupervisorSession:
    """Return the worker as executions see it; it serves only `remote-agent` backends."""
    return executions.SupervisorSession(
        agent_id=agent.agent_id,
        incarnation=agent.incarnation,
        kinds=BACKEND_KINDS,
        backends=agent.backends,
        capabilities=agent.capabilities,
        labels=agent.labels,
    )


def register_worker(
    registration: agents.Registration, active: Sequence[Job]
) -> tuple[agents.Registered, executions.Adopted]:
    """Register a worker: its earlier token is void, and jobs not in `active` expire."""
    registered = agents.register(registration)
    return registered, executions.adopt(supervisor_of(registered.agent), active)


def remove_agent(agent_id: str) -> None:
    """Remove the agent's token, then expire its jobs; no effect for an unknown agent."""
    agents.remove(agent_id)
    executions.expire_jobs_of(agent_id)
