"""What a heartbeat says of the supervisor's process is what the store knows of it."""

from __future__ import annotations

import asyncio

from django.db import connections

from apps.agents.api import Agent, get_agent
from tests.contracts.control_plane.conftest import AGENT_ID
from worker.domain.control_plane import (
    FAILING_LOOPS,
    LOOP_CHARACTERS,
    ControlPlane,
    HeartbeatReport,
)

FAILING = ("claims", "streams-nudge-in")


async def _beat(plane: ControlPlane, failing: tuple[str, ...] = ()) -> Agent:
    beat = HeartbeatReport(
        running_jobs=2, runtime_available=False, runs=("run-1",), failing_loops=failing
    )
    released = await plane.heartbeat(beat)
    assert released == ["run-1"], "unknown to the store: nobody needs it"
    return await asyncio.to_thread(_stored)


def _stored() -> Agent:
    try:
        return get_agent(AGENT_ID)
    finally:
        connections.close_all()


async def test_a_heartbeat_is_stored(plane: ControlPlane) -> None:
    agent = await _beat(plane)

    assert (agent.running_jobs, agent.runtime_available, agent.runs) == (2, False, ("run-1",))


async def test_failing_loops_are_known_until_a_heartbeat_without_them(plane: ControlPlane) -> None:
    named = await _beat(plane, FAILING)
    fewer = await _beat(plane, FAILING[:1])
    cleared = await _beat(plane)

    assert (named.failing_loops, fewer.failing_loops) == (FAILING, FAILING[:1])
    assert cleared.failing_loops == ()


async def test_who_registers_again_has_no_failing_loop_yet(plane: ControlPlane) -> None:
    await _beat(plane, FAILING)

    await plane.register((), runtime_available=True)

    assert (await asyncio.to_thread(_stored)).failing_loops == ()


async def test_as_many_loops_as_a_heartbeat_may_name_are_taken(plane: ControlPlane) -> None:
    names = tuple(str(number).rjust(LOOP_CHARACTERS, "x") for number in range(FAILING_LOOPS))

    assert (await _beat(plane, names)).failing_loops == names
