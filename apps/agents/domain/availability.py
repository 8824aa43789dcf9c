"""Which supervisors serve a backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from apps.agents.domain.agent import Agent
from apps.platform_settings.api import Backend, BackendState


def carries(routing_tags: Iterable[str], labels: Mapping[str, str]) -> bool:
    """Return whether every tag, `key` or `key=value`, is among the labels of a supervisor."""
    for tag in routing_tags:
        key, equals, value = tag.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return True


def is_available(backend: Backend, online: Iterable[Agent]) -> bool:
    """Return whether an online supervisor serves it whose last heartbeat reported a runtime.

    Those that drain do not count.
    """
    return any(
        agent.runtime_available and not agent.draining and serves(agent, backend)
        for agent in online
    )


def serves(agent: Agent, backend: Backend) -> bool:
    """Return whether this supervisor is for this backend.

    Workers are for the kind `remote-agent`, runners for the others.
    """
    wanted = "worker" if backend.kind == "remote-agent" else "runner"
    return (
        agent.kind == wanted
        and backend.backend_id in agent.backends
        and carries(backend.routing_tags, agent.labels)
    )


def state_of(backend: Backend, known: Iterable[Agent], online: Iterable[Agent]) -> BackendState:
    """Return what its supervisors tell; `known` are all of them, `online` those that are heard."""
    serving = [agent for agent in known if serves(agent, backend)]
    if not serving:
        return BackendState()
    latest = max(serving, key=lambda agent: agent.last_heartbeat_at)
    heard = [agent for agent in online if serves(agent, backend)]
    return BackendState(
        available=is_available(backend, heard),
        registered_at=latest.registered_at,
        last_heartbeat_at=latest.last_heartbeat_at,
        capabilities=tuple(sorted({each for agent in heard for each in agent.capabilities})),
    )
