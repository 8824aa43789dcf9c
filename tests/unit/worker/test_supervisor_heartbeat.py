"""Heartbeats of a supervisor whose runtime does not answer, or answers with an error."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.fake_control_plane import FakeControlPlane, Store
from tests.support.fake_runtime import FakeRuntime
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import RuntimeUnavailable
from worker.supervisor import supervisor_heartbeat
from worker.supervisor.supervisor_heartbeat import SupervisorHeartbeat

OWNER = UnitOwner(installation_id="i", orchestrator_id="o", host_id="h")


class BusyRuntime(FakeRuntime):
    """Answers a ping; its list of runs never comes, or is refused."""

    hangs = True

    async def runs(self, owner: UnitOwner) -> frozenset[str]:
        if self.hangs:
            await asyncio.Event().wait()
        raise RuntimeUnavailable("the engine is busy")


async def _register() -> None:
    raise AssertionError("nobody asked for it")


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_runtime_that_does_not_list_its_runs_keeps_no_heartbeat_back(
    monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    monkeypatch.setattr(supervisor_heartbeat, "RUNTIME_S", 0.05)
    store, runtime = Store(), BusyRuntime()
    runtime.hangs = hangs
    heartbeat = SupervisorHeartbeat(FakeControlPlane(store), runtime, OWNER, register=_register)
    heartbeat.interval_s = 0.05

    beating = asyncio.create_task(heartbeat.run(lambda: (1, frozenset({"run-1"}))))
    await store.until(lambda: len(store.beats) > 1)
    beating.cancel()

    first = store.beats[0]
    assert not first.runtime_available
    assert (first.running_jobs, first.runs) == (1, ("run-1",))
