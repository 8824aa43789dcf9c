"""A supervisor ends, and its successor finds the units (reference: control-plane 15.2)."""

from __future__ import annotations

import asyncio

from tests.apps.workers.conftest import Stage
from worker.domain.output_records import OutputRecord


async def test_a_successor_goes_on_with_the_same_unit_and_no_line_twice(stage: Stage) -> None:
    """Invariants 6, 11 and 39: the same attempt goes on, no line is lost or doubled."""
    words = [word for number in range(60) for word in (f"out:line {number}", "sleep:0.01")]
    job = await stage.add(*words)

    for _ in range(3):
        async with stage.supervisor():
            await asyncio.sleep(0.12)
    async with stage.supervisor():
        outcome = await stage.store.outcome(job)

    assert outcome.status == "succeeded"
    assert job.texts == [f"line {number}" for number in range(60)]
    assert len(stage.runtime.started) == 1
    assert "adopted" in [state for state, _ in job.states]


async def test_a_unit_that_ended_meanwhile_is_completed_by_the_successor(stage: Stage) -> None:
    job = await stage.add("out:a", "sleep:0.2", "out:b", "exit:4")
    async with stage.supervisor():
        await stage.store.until(lambda: job.texts == ["a"])
    await asyncio.sleep(0.3)

    async with stage.supervisor():
        outcome = await stage.store.outcome(job)

    assert (outcome.exit_code, job.texts) == (4, ["a", "b"])


async def test_an_adopted_healthy_service_is_not_probed_again(stage: Stage) -> None:
    service = {"kind": "service", "ready": {"tcp": 1, "timeoutMs": 2_000}}
    job = await stage.add("serve", node=service)
    async with stage.supervisor():
        await stage.store.state(job, "running")
        running = next(iter(stage.runtime.units.values()))
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        running.listens.add(1)
        stage.runtime.ports = {1: port}
        await stage.store.state(job, "healthy")
    server.close()
    running.listens.clear()

    async with stage.supervisor():
        await stage.store.state(job, "adopted")
        await asyncio.sleep(0.1)
        stage.last.cancel(job, "teardown")
        outcome = await stage.store.outcome(job)

    assert outcome.status == "canceled"
    assert [state for state, _ in job.states].count("healthy") == 1


async def test_a_unit_that_is_not_kept_is_removed(stage: Stage) -> None:
    job = await stage.add("serve")
    async with stage.supervisor():
        await stage.store.state(job, "running")
    job.attempt = 2

    async with stage.supervisor():
        await stage.until_removed()

    assert job.outcome is None


async def test_a_long_line_comes_in_pieces_also_across_a_crash(stage: Stage) -> None:
    job = await stage.add("sleep:0.2", "serve")
    async with stage.supervisor():
        await stage.store.state(job, "running")
        running = next(iter(stage.runtime.units.values()))
        running.records.append(OutputRecord(1, "stdout", b"a" * 16384, None))
        await stage.runtime.say(running, "stderr", "between")
        await stage.store.until(lambda: len(job.texts) == 2)
    running.records.append(OutputRecord(3, "stdout", b"tail\n", None))

    async with stage.supervisor():
        await stage.store.until(lambda: len(job.texts) == 3)
        stage.last.cancel(job, "canceled")
        await stage.store.outcome(job)

    assert [(len(line.text), line.continued) for line in job.lines] == [
        (16384, True),
        (7, False),
        (4, False),
    ]
