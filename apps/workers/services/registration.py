"""Workers that come and go, and what becomes of their jobs (reference: control-plane 15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apps.agents import api as agents
from apps.executions import api as executions

BACKEND_KINDS: Final = ("remote-agent",)


def supervisor_of(agent: agents.Agent) -> executions.SupervisorSession:
    """The worker as executions see it: its backends count only where they are `remote-agent`."""
    return executions.SupervisorSession(
        agent_id=agent.agent_id,
        incarnation=agent.incarnation,
        kinds=BACKEND_KINDS,
        backends=agent.backends,
        capabilities=agent.capabilities,
        labels=agent.labels,
    )


def register_worker(
    registration: agents.Registration, active: Sequence[executions.ActiveJob]
) -> tuple[agents.Registered, executions.Adopted]:
    """From here on the token given before counts no more; jobs not in `active` are lost."""
    registered = agents.register(registration)
    return registered, executions.adopt(supervisor_of(registered.agent), active)


def remove_agent(agent_id: str) -> None:
    """Its token dies first, then its jobs are lost. Nothing happens for an unknown one."""
    agents.remove(agent_id)
    executions.expire_jobs_of(agent_id)
