"""Agents: registered supervisors and their heartbeats, independent of executions."""

from __future__ import annotations

from apps.agents.domain.agent import (
    OFFLINE_AFTER,
    Agent,
    AgentNotFound,
    Registered,
    Registration,
)
from apps.agents.domain.availability import carries, is_available
from apps.agents.selectors import (
    authenticate,
    get_agent,
    is_draining,
    is_online,
    list_agents,
    online_agents,
    seen_since,
)
from apps.agents.services import drain, heard_of, heartbeat, register, remove, resume, serve

__all__ = [
    "OFFLINE_AFTER",
    "Agent",
    "AgentNotFound",
    "Registered",
    "Registration",
    "authenticate",
    "carries",
    "drain",
    "get_agent",
    "heard_of",
    "heartbeat",
    "is_available",
    "is_draining",
    "is_online",
    "list_agents",
    "online_agents",
    "register",
    "remove",
    "resume",
    "seen_since",
    "serve",
]
