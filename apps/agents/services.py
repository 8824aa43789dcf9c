"""Registration, heartbeats, draining and removal of supervisors."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from apps.agents import models
from apps.agents.domain.agent import (
    Agent,
    AgentNotFound,
    Registered,
    Registration,
    RunnerOnline,
)
from apps.agents.selectors import as_agent, registered_agents, token_hash
from apps.streams.api import unit_of_work
from kernel import clock


@unit_of_work
def register(registration: Registration) -> Registered:
    """Insert or replace by agent id; the old token becomes void.

    `registeredAt` is kept, and an agent that drains goes on draining.

    A worker gets its own token; a runner, which calls in process, gets none. `backends` and a blank
    name default to the agent id (reference: control-plane 15.1).
    """
    token = secrets.token_urlsafe(32) if registration.kind == "worker" else ""
    now = clock.now()
    row, _ = models.Agent.objects.update_or_create(
        agent_id=registration.agent_id,
        defaults={
            **_columns(registration),
            "token_sha256": token_hash(token) if token else "",
            "last_heartbeat_at": now,
            "removed_at": None,
            "runs": [],
            "running_jobs": 0,
            "failing_loops": [],
        },
        create_defaults={
            **_columns(registration),
            "agent_id": registration.agent_id,
            "token_sha256": token_hash(token) if token else "",
            "registered_at": now,
            "last_heartbeat_at": now,
        },
    )
    return Registered(agent=as_agent(row), agent_token=token)


@unit_of_work
def heartbeat(
    agent_id: str,
    *,
    incarnation: str = "",
    running_jobs: int | None = None,
    runtime_available: bool = True,
    runs: Sequence[str] = (),
    failing_loops: Sequence[str] = (),
) -> Agent:
    """Record a heartbeat. Raises AgentNotFound, also for an earlier `incarnation`."""
    values: dict[str, object] = {
        "last_heartbeat_at": clock.now(),
        "runtime_available": runtime_available,
        "runs": list(runs),
        "failing_loops": list(failing_loops),
    }
    if running_jobs is not None:
        values["running_jobs"] = running_jobs
    if not _of(agent_id, incarnation).update(**values):
        raise AgentNotFound
    return as_agent(registered_agents().get(agent_id=agent_id))


@unit_of_work
def heard_of(agent_id: str, incarnation: str) -> None:
    """Record that the process is alive, as a lease call proves."""
    _of(agent_id, incarnation).update(last_heartbeat_at=clock.now())


@unit_of_work
def serve(agent_id: str, incarnation: str, backends: Sequence[str]) -> None:
    """Set the backends that a registered agent serves; no effect without a registration."""
    _of(agent_id, incarnation).update(backends=list(backends))


@unit_of_work
def remove(agent_id: str) -> bool:
    """Remove the agent and its token; return False if it was not registered."""
    gone = registered_agents().filter(agent_id=agent_id)
    return bool(
        gone.update(removed_at=clock.now(), token_sha256="", drained_at=None, drained_by="")
    )


def remove_by_hand(agent_id: str) -> bool:
    """Remove an agent for an administrator; raise RunnerOnline, else as `remove`."""
    row = registered_agents().filter(agent_id=agent_id, kind="runner").first()
    if row is not None and as_agent(row).is_online(clock.now()):
        raise RunnerOnline(agent_id)
    return remove(agent_id)


@unit_of_work
def drain(agent_id: str, *, by: str = "") -> bool:
    """Keep new runs from the agent, which finishes its own; return False if it drains already.

    `by` is the name of who drains it, for those whose runs wait. Raises AgentNotFound.
    """
    return _set_drained(agent_id, drained=True, by=by)


@unit_of_work
def resume(agent_id: str) -> bool:
    """End a drain, so that the agent takes new runs; return False if it did not drain.

    Raises AgentNotFound.
    """
    return _set_drained(agent_id, drained=False)


def _set_drained(agent_id: str, *, drained: bool, by: str = "") -> bool:
    agent = registered_agents().filter(agent_id=agent_id)
    others = agent.filter(drained_at__isnull=drained)
    if others.update(drained_at=clock.now() if drained else None, drained_by=by[:150]):
        return True
    if not agent.exists():
        raise AgentNotFound
    return False


def _of(agent_id: str, incarnation: str) -> Any:
    rows = registered_agents().filter(agent_id=agent_id)
    return rows.filter(incarnation=incarnation) if incarnation else rows


def _columns(registration: Registration) -> dict[str, object]:
    columns = asdict(registration)
    del columns["agent_id"]
    return columns | {
        "name": registration.name.strip() or registration.agent_id,
        "backends": list(registration.backends or (registration.agent_id,)),
        "capabilities": list(registration.capabilities),
        "labels": dict(registration.labels),
    }
