"""A runtime whose steps print one line and end well at once: what is left is the protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from kernel import clock
from worker.domain.evaluation import UnitExit
from worker.domain.output_records import OutputRecord
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import (
    STOP_GRACE_S,
    Launch,
    RemovedResources,
    Runtime,
    RuntimeOptions,
    RuntimePlugin,
    Unit,
    UnitState,
)
from worker.runtimes import runtimes

runtimes.register("no-op")(
    RuntimePlugin(
        summary="prints one line at once",
        title="Nothing",
        implementation="bench.noop_runtime:NoOpRuntime",
    )
)


class NoOpRuntime(Runtime):
    def __init__(self, options: RuntimeOptions) -> None:
        del options

    async def start(self, launch: Launch) -> Unit:
        return Unit(
            id=launch.name,
            name=launch.name,
            state=UnitState.RUNNING,
            labels=launch.labels,
            started_at=clock.now(),
        )

    async def output(self, unit: Unit, *, after: int = 0) -> AsyncGenerator[Sequence[OutputRecord]]:
        if not after:
            yield [OutputRecord(1, "stdout", f"{unit.name}\n".encode(), clock.rfc3339(clock.now()))]

    async def wait(self, unit: Unit) -> UnitExit:
        del unit
        return UnitExit(exit_code=0)

    async def stop(self, unit: Unit, *, grace_s: float = STOP_GRACE_S) -> None:
        del unit, grace_s

    async def find(self, owner: UnitOwner) -> Sequence[Unit]:
        del owner
        return ()

    async def release(self, run_id: str, owner: UnitOwner) -> RemovedResources:
        del run_id, owner
        return RemovedResources()
