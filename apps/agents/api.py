"""Agents: registered supervisors and their heartbeats, independent of executions."""

from __future__ import annotations

from apps.agents.domain.agent import (
    OFFLINE_AFTER,
    Agent,
    AgentDocument,
    AgentNotFound,
    Registered,
    Registration,
)
from apps.agents.domain.availability import is_routed_to
from apps.agents.selectors import (
    agents_seen_since,
    authenticate,
    get_agent,
    is_draining,
    is_online,
    list_agents,
    online_agents,
    reasons_to_wait,
)
from apps.agents.services import (
    drain,
    heard_of,
    heartbeat,
    register,
    remove,
    remove_by_hand,
    resume,
    serve,
)
