"""Units of steps that may come next, between a control plane and a runtime (decision 0060)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.apps.workers.conftest import Stage
from tests.support import steps
from worker.supervisor import steps_ahead


def body(stage: Stage, node_id: str, *words: str, **changes: Any) -> dict[str, Any]:
    node = {"command": list(words)} | changes.pop("node", {})
    return steps.claim(stage.run_id, node_id, node=node, **changes)


async def until_ahead(stage: Stage, *step_ids: str) -> None:
    async with asyncio.timeout(5):
        while {step for _, step in stage.runtime.ahead} != set(step_ids):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_step_that_comes_has_what_was_started_for_it(stage: Stage) -> None:
    second = body(stage, "second", "out:two")
    async with stage.supervisor(starts_ahead=2):
        first = await stage.add("sleep:0.3", node_id="first", ahead=[second])
        await until_ahead(stage, "second")
        assert stage.runtime.started == [next(iter(stage.runtime.units))]  # and it has not run
        await stage.store.outcome(first)

        job = await stage.store.add(second)

        assert (await stage.store.outcome(job)).status == "succeeded"
    assert job.texts == ["two"]
    assert len(stage.runtime.went_ahead) == 1
    assert stage.runtime.ahead == {}


async def test_a_step_whose_release_was_lost_is_started_again(stage: Stage) -> None:
    stage.runtime.lost_releases = {"a": 1}
    async with stage.supervisor():
        job = await stage.add("sleep:0.2", "out:x", node_id="a")
        assert (await stage.store.outcome(job)).status == "succeeded"

    assert job.texts == ["x"]
    assert len(stage.runtime.started) == 2


async def test_a_step_whose_releases_are_all_lost_fails(stage: Stage) -> None:
    stage.runtime.lost_releases = {"a": 9}
    async with stage.supervisor():
        job = await stage.add("sleep:0.2", "out:x", node_id="a")
        outcome = await stage.store.outcome(job)

    assert (outcome.status, outcome.reason) == ("failed", "runtime_unavailable")
    assert len(stage.runtime.started) == 3


async def test_at_most_so_many_are_started(stage: Stage) -> None:
    ahead = [body(stage, name) for name in ("b", "c", "d")]
    async with stage.supervisor(starts_ahead=2):
        await stage.add("serve", node_id="a", ahead=ahead)
        await until_ahead(stage, "b", "c")
        await asyncio.sleep(0.1)

        assert {step for _, step in stage.runtime.ahead} == {"b", "c"}


async def test_a_step_that_runs_takes_the_place_of_no_other(stage: Stage) -> None:
    second = body(stage, "b", "serve", ahead=[body(stage, "c")])
    async with stage.supervisor(starts_ahead=1):
        first = await stage.add("sleep:0.2", node_id="a", ahead=[second])
        await until_ahead(stage, "b")
        await stage.store.outcome(first)
        await stage.store.add(second)

        await until_ahead(stage, "c")


async def test_what_is_about_to_leave_gives_way_to_what_may_come(stage: Stage) -> None:
    async with stage.supervisor(starts_ahead=1) as supervisor:
        failed = await stage.add("sleep:0.2", "exit:1", node_id="a", ahead=[body(stage, "b")])
        await until_ahead(stage, "b")
        await stage.store.outcome(failed)
        await supervisor.until_idle()
        await stage.add("serve", node_id="other", ahead=[body(stage, "c")])

        await until_ahead(stage, "c")


@pytest.mark.parametrize("off", ["setting", "runtime"])
async def test_it_can_be_off(stage: Stage, off: str) -> None:
    stage.runtime.starts_ahead = off != "runtime"
    async with stage.supervisor(starts_ahead=0 if off == "setting" else 2):
        job = await stage.add("out:x", node_id="a", ahead=[body(stage, "b")])
        await stage.store.outcome(job)

    assert stage.runtime.ahead == {}


async def test_what_does_not_come_is_removed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_ahead, "LINGER_S", 0.1)
    async with stage.supervisor(starts_ahead=2):
        job = await stage.add("sleep:0.2", "exit:1", node_id="a", ahead=[body(stage, "b")])
        await until_ahead(stage, "b")
        await stage.store.outcome(job)

        await until_ahead(stage)


async def test_it_stays_while_one_of_several_that_it_may_wait_for_runs(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps_ahead, "LINGER_S", 0.0)
    async with stage.supervisor(starts_ahead=2):
        long = await stage.add("sleep:3", node_id="long")
        await stage.store.state(long, "running")
        short = await stage.add("sleep:0.1", node_id="short", ahead=[body(stage, "b")])
        await until_ahead(stage, "b")
        await stage.store.outcome(short)
        await asyncio.sleep(0.1)

        assert {step for _, step in stage.runtime.ahead} == {"b"}
        await stage.store.outcome(long)
        await until_ahead(stage)


async def test_a_supervisor_that_leaves_takes_it_along(stage: Stage) -> None:
    async with stage.supervisor(starts_ahead=2):
        await stage.add("serve", node_id="a", ahead=[body(stage, "b")])
        await until_ahead(stage, "b")

    assert stage.runtime.ahead == {}


async def test_a_step_that_is_canceled_before_it_starts_leaves_nothing(stage: Stage) -> None:
    absent = {"image": "no/such:image"}
    second = body(stage, "b", node=absent)
    async with stage.supervisor(starts_ahead=2):
        await stage.add("serve", node_id="a", ahead=[second])
        await until_ahead(stage, "b")
        job = await stage.store.add(second)

        assert (await stage.store.outcome(job)).reason == "image_missing"
        await until_ahead(stage)


async def test_hints_that_cannot_be_read_harm_nothing(stage: Stage) -> None:
    async with stage.supervisor(starts_ahead=2):
        job = await stage.add("out:x", node_id="a", ahead=[{"jobId": "x"}, body(stage, "b")])

        assert (await stage.store.outcome(job)).status == "succeeded"
