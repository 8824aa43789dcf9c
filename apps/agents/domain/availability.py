"""Which supervisors serve a backend, and what a backend without one waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from apps.agents.domain.agent import Agent
from apps.platform_settings.api import Backend, BackendState
from kernel.clock import rfc3339

MOST_REASONS: Final = 3  # of the supervisors of one backend


def is_routed_to(backend: Backend, labels: Mapping[str, str]) -> bool:
    """Return whether a supervisor with these labels may take the steps of a backend.

    Routing tags select workers, each being `key` or `key=value`; for other kinds they inform.
    """
    return backend.kind != "remote-agent" or not missing_tags(backend.routing_tags, labels)


def missing_tags(routing_tags: Iterable[str], labels: Mapping[str, str]) -> list[str]:
    """Return the tags that are not among the labels of a supervisor."""
    missing = []
    for tag in routing_tags:
        key, equals, value = tag.partition("=")
        if key not in labels or (equals and labels[key] != value):
            missing.append(tag)
    return missing


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
    return _names(agent, backend) and is_routed_to(backend, agent.labels)


def waits_for(backend: Backend, known: Sequence[Agent], now: datetime) -> str:
    """Return what keeps a backend from taking steps, "" if it is available.

    `known` are all registered supervisors.
    """
    online = [agent for agent in known if agent.is_online(now)]
    if is_available(backend, online):
        return ""
    named = [agent for agent in known if _names(agent, backend)]
    heard = [agent for agent in named if agent.is_online(now)]
    if not heard:
        return _absent(_noun(backend), named)
    serving = [agent for agent in heard if serves(agent, backend)]
    if not serving:
        return _tags_awaited(backend, heard)
    reasons = list(dict.fromkeys(_reason(agent, _noun(backend)) for agent in serving))
    more = f"; and {len(reasons) - MOST_REASONS} more" if len(reasons) > MOST_REASONS else ""
    return "; ".join(reasons[:MOST_REASONS]) + more


def _absent(noun: str, silent: Sequence[Agent]) -> str:
    """Return since when the supervisors of a backend are silent, or that there are none."""
    if not silent:
        return f"no {noun} has registered for it"
    latest = max(silent, key=lambda agent: agent.last_heartbeat_at)
    return f"its {noun} {latest.name} was last heard of at {rfc3339(latest.last_heartbeat_at)}"


def _names(agent: Agent, backend: Backend) -> bool:
    wanted = "worker" if backend.kind == "remote-agent" else "runner"
    return agent.kind == wanted and backend.backend_id in agent.backends


def _noun(backend: Backend) -> str:
    return "worker" if backend.kind == "remote-agent" else "runner"


def _tags_awaited(backend: Backend, heard: Sequence[Agent]) -> str:
    """Return the tags that none of the workers has, or that none has all of them."""
    tags = backend.routing_tags
    lacking = [missing_tags(tags, agent.labels) for agent in heard]
    nowhere = [tag for tag in tags if all(tag in missing for missing in lacking)]
    shown = ", ".join(f'"{tag}"' for tag in nowhere or tags)
    noun = "tag" if len(nowhere or tags) == 1 else "tags"
    ending = "which no online worker has" if nowhere else "which no online worker has together"
    return f"{noun} {shown}, {ending}"


def _reason(agent: Agent, noun: str) -> str:
    """Return why an online supervisor of the backend takes no steps."""
    if agent.drained_at is None:
        return f"the engine of {noun} {agent.name} does not answer"
    by = f" by {agent.drained_by}" if agent.drained_by else ""
    at = rfc3339(agent.drained_at)
    return f"{noun} {agent.name} was drained{by} at {at}; resume it in the admin"


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
