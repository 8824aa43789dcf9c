"""The runtime `kubernetes` while its API server fails by seed: nothing is lost, nothing is double.

A tenth of the requests gets 429, 500 or 503, or no answer after it was done; watches end after a
few events or are too old; each stream of a log is cut in the middle; programs in containers are
refused, or end without a result.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

import pytest

from tests.contracts.runtime.conftest import LocalClusterDriver, local_cluster_driver
from tests.support import steps
from tests.support.local_cluster import Faults
from worker.domain.runtime import UnitState

SEEDS = range(5)
LINES = 200
# both streams, bursts and pauses, and characters of several bytes
TALKS = (
    f"sh:i=0; while [ $i -lt {LINES} ]; do echo $i ünd; i=$((i+1)); "
    "[ $((i%7)) -gt 0 ] || sleep 0.03; done"
)


@asynccontextmanager
async def rough_cluster(path: Path, faults: Faults) -> AsyncGenerator[LocalClusterDriver]:
    driver = local_cluster_driver(path, faults, log_silence_s=1.0)
    async with AsyncExitStack() as stack:
        await driver.open(stack)
        yield driver
        await driver.close()


def numbers(texts: list[str]) -> list[int]:
    return [int(text.removesuffix(" ünd\n")) for text in texts]


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_line_is_lost_or_doubled(tmp_path: Path, seed: int) -> None:
    faults = Faults(seed)
    async with rough_cluster(tmp_path, faults) as driver, asyncio.timeout(60):
        unit = await driver.start(TALKS, "exit:3")

        records = await driver.records(unit)

        assert numbers([each.data.decode() for each in records]) == list(range(LINES))
        assert [each.position for each in records] == list(range(1, LINES + 1))
        assert (await driver.runtime.wait(unit)).exit_code == 3
    assert faults.counts["log cut"] > 0


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_successor_goes_on_after_any_line(tmp_path: Path, seed: int) -> None:
    async with rough_cluster(tmp_path, Faults(seed)) as driver, asyncio.timeout(60):
        unit = await driver.start(TALKS)
        position = 0
        for end in (*sorted(random.Random(seed).sample(range(1, LINES), 3)), LINES):
            async with aclosing(driver.again().output(unit, after=position)) as output:
                async for records in output:
                    taken = numbers([each.data.decode() for each in records])
                    assert taken == list(range(position, position + len(taken)))
                    position = records[-1].position
                    if position >= end:
                        break

        assert position == LINES


@pytest.mark.parametrize("seed", SEEDS)
async def test_steps_at_once_end_as_they_should_and_leave_nothing(
    tmp_path: Path, seed: int
) -> None:
    async with rough_cluster(tmp_path, Faults(seed)) as driver, asyncio.timeout(60):
        names = [f"step-{number}" for number in range(4)]
        units = await asyncio.gather(
            *(
                driver.start(f"write:a.txt={name}", "sleep:0.2", f"exit:{place}", node_id=name)
                for place, name in enumerate(names)
            )
        )
        ends = await asyncio.gather(*(driver.runtime.wait(unit) for unit in units))
        files = [await driver.runtime.collect(unit, "a.txt") for unit in units]

        assert [end.exit_code for end in ends] == [0, 1, 2, 3]
        assert [each.files[0].body.decode() for each in files] == names
        found = await driver.again().find(steps.owner())
        assert {unit.state for unit in found} == {UnitState.ENDED}
        removed = await driver.runtime.release(driver.run_id, steps.owner())
        assert removed.leftovers == ()
        assert not any(driver.cluster.objects.values())


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_service_is_stopped_once_and_its_pod_goes(tmp_path: Path, seed: int) -> None:
    async with rough_cluster(tmp_path, Faults(seed)) as driver, asyncio.timeout(60):
        unit = await driver.start("out:up", "serve", node={"kind": "service", "ports": ["8080"]})

        await driver.runtime.stop(unit)

        assert (await driver.runtime.wait(unit)).exit_code != 0
        assert await driver.texts(unit) == ["up\n"]
        await driver.runtime.remove(unit)
        assert await driver.runtime.find(steps.owner()) == []
