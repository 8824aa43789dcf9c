"""Lines between the runtime's log and the control plane: bounded, in order, none lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kernel import clock
from kernel.agent_protocol import JobDirective, LogChunk, LogLine
from kernel.redaction import Redactor
from tests.support import steps
from tests.support.fake_control_plane import OrderlyFakeControlPlane, Store
from worker.domain.control_plane import ControlPlaneUnavailable
from worker.domain.masked_output import LineCutter, LogWatch
from worker.supervisor.spool import DISK_BYTES, Spool, SpoolEntry, SpoolSpace
from worker.supervisor.step_log import LogPosition, StepLog


def entry(number: int) -> SpoolEntry:
    return SpoolEntry(number, [LogLine(clock.now(), "info", "output", f"{number:1000d}")])


async def put_all(spool: Spool, count: int) -> None:
    for number in range(1, count + 1):
        await spool.put([entry(number)])
    spool.end()


async def take_all(spool: Spool) -> list[int]:
    taken: list[int] = []
    while await spool.wait():
        taken += [int(line.text) for line in (await spool.take()).lines]
    return taken


@pytest.mark.parametrize("disk_bytes", [0, DISK_BYTES])
async def test_what_is_put_is_taken_in_order(tmp_path: Path, disk_bytes: int) -> None:
    spool = Spool(SpoolSpace(tmp_path, disk_bytes), memory_bytes=10_000)

    _, taken = await asyncio.gather(put_all(spool, 500), take_all(spool))

    assert taken == list(range(1, 501))
    await spool.close()


async def test_without_disk_the_reader_waits_for_room(tmp_path: Path) -> None:
    """Invariant 38: lines that the store does not take yet stay in the runtime's own log."""
    spool = Spool(SpoolSpace(tmp_path, 0), memory_bytes=10_000)

    putting = asyncio.create_task(put_all(spool, 500))
    await asyncio.sleep(0.05)

    assert not putting.done()
    assert len((await spool.take()).lines) <= 10
    putting.cancel()
    await asyncio.gather(putting, return_exceptions=True)


async def test_with_disk_the_reader_goes_on_until_that_is_full(tmp_path: Path) -> None:
    space = SpoolSpace(tmp_path, 100_000)
    spool = Spool(space, memory_bytes=10_000)

    putting = asyncio.create_task(put_all(spool, 500))
    await asyncio.sleep(0.05)
    assert not putting.done()
    taken = await take_all(spool)

    assert taken == list(range(1, 501))
    await asyncio.gather(putting, spool.close())


class UnsteadyControlPlane(OrderlyFakeControlPlane):
    """Is away for the second chunk that it gets."""

    calls = 0

    async def send(self, chunk: LogChunk) -> JobDirective:
        self.calls += 1
        if self.calls == 2:
            raise ControlPlaneUnavailable("away")
        return await super().send(chunk)


async def test_of_chunks_sent_together_none_is_lost_and_none_stored_twice(tmp_path: Path) -> None:
    """Invariant 11."""
    store = Store()
    job = await store.add(steps.claim("run-000000000001", "step"))
    control_plane = UnsteadyControlPlane(store)
    await control_plane.claim(1)
    log = StepLog(
        control_plane,
        job.job,
        SpoolSpace(tmp_path, 0),
        cutter=LineCutter(Redactor(()), LogWatch(())),
        start=LogPosition(),
        apply_directive=lambda _directive: None,
    )

    for number in range(3_000):
        await log.append_system_line(str(number))
    assert await log.finish() == 3_000
    await log.sending
    await log.close()

    assert [line.text for line in job.lines] == [str(number) for number in range(3_000)]
    assert control_plane.calls > 3
