"""A runtime whose steps print one line and end well at once: what is left is the protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import ClassVar

from kernel import clock
from worker.domain.evaluation import UnitExit
from worker.domain.output import OutputRecord
from worker.domain.ownership import UnitOwner
from worker.domain.readiness import HttpProbe, ProbeResponse, TcpProbe
from worker.domain.runtime import (
    STOP_GRACE_S,
    Collected,
    Folders,
    Launch,
    RemovedResources,
    RuntimeOptions,
    Unit,
    UnitState,
    UnitUsage,
)
from worker.runtimes import runtimes


@runtimes.register("no-op")
class NoOpRuntime:
    label_note: ClassVar[str] = "(no-op)"
    shared: ClassVar[bool] = False

    def __init__(self, options: RuntimeOptions) -> None:
        del options

    async def ping(self) -> bool:
        return True

    async def close(self) -> None:
        return

    def folders(self, *, name: str, workspace: str) -> Folders:
        del name, workspace
        return Folders(workspace="/partita/workspace", artifacts="/partita/artifacts")

    async def prepare(self, launch: Launch, *, pulling: Callable[[str], Awaitable[None]]) -> None:
        del launch, pulling

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

    async def remove(self, unit: Unit) -> None:
        del unit

    async def run_inside(self, unit: Unit, argv: Sequence[str], *, timeout_s: float) -> int:
        del unit, argv, timeout_s
        return 0

    async def endpoint(self, unit: Unit, port: int) -> tuple[str, int] | None:
        del unit, port
        return None

    async def probe_inside(
        self, unit: Unit, probe: HttpProbe | TcpProbe, headers: Mapping[str, str]
    ) -> ProbeResponse:
        del unit, headers
        return ProbeResponse(problem=f"no process of the step listens on port {probe.port}")

    async def has_health_check(self, unit: Unit) -> bool:
        del unit
        return False

    async def is_healthy(self, unit: Unit) -> bool:
        del unit
        return True

    async def usage(self, unit: Unit) -> UnitUsage | None:
        del unit
        return None

    async def collect(self, unit: Unit, pattern: str) -> Collected:
        del unit, pattern
        return Collected()

    async def find(self, owner: UnitOwner) -> Sequence[Unit]:
        del owner
        return ()

    async def runs(self, owner: UnitOwner) -> frozenset[str]:
        del owner
        return frozenset()

    async def release(self, run_id: str, owner: UnitOwner) -> RemovedResources:
        del run_id, owner
        return RemovedResources()
