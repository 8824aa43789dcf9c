"""The runner repeats steps in kept environments with the supervisor's own machinery."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from apps.executions.domain.repeats import repeat_topic
from apps.executions.models import StepRepeat
from apps.executions.services.repeats import cancel_repeat
from apps.streams.api import read
from apps.workers.repeats import RepeatingSupervisor, RepeatLoop
from tests.apps.executions.kept import ask, end_keeping, kept_run
from tests.apps.executions.runs import Run, Worker, node
from tests.support import steps
from tests.support.fake_runtime import FakeRuntime
from worker.domain import ownership
from worker.domain.runtime import UnitState
from worker.supervisor.attempt import SupervisorOptions

pytestmark = pytest.mark.django_db(transaction=True)
T = TypeVar("T")
OWNER = steps.owner("runner-1")


@pytest.fixture(autouse=True)
def _settings(settings: Any, tmp_path: Path) -> None:
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "none.yaml"


@pytest.fixture
async def runtime() -> AsyncIterator[FakeRuntime]:
    made = FakeRuntime()
    yield made
    await made.close()
    await sync_to_async(connections.close_all)()


async def on_thread(work: Callable[..., T], *arguments: Any, **options: Any) -> T:
    return await sync_to_async(work)(*arguments, **options)


@asynccontextmanager
async def repeating(runtime: FakeRuntime, state_dir: Path) -> AsyncIterator[RepeatLoop]:
    """A runner's loop, which is gone at the end as if its process were."""
    options = SupervisorOptions(owner=OWNER, state_dir=state_dir)
    loop = RepeatLoop(lambda: [RepeatingSupervisor("runner-1", runtime, options)])
    task = asyncio.create_task(loop.keep_repeating())
    try:
        yield loop
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def ended(repeat: StepRepeat) -> StepRepeat:
    async with asyncio.timeout(20):
        while True:
            row = await on_thread(StepRepeat.objects.get, pk=repeat.pk)
            if row.finished_at:
                return row
            await asyncio.sleep(0.02)


def output(repeat: StepRepeat) -> list[str]:
    chunks = read(repeat_topic(repeat.repeat_id), after=0, limit=10_000)
    found = [json.loads(record) for each in chunks for record in each.records]
    return [line["text"] for line in found if line["kind"] == "output"]


async def written(repeat: StepRepeat) -> None:
    """Wait until the step has written something."""
    async with asyncio.timeout(20):
        while not await on_thread(output, repeat):  # noqa: ASYNC110 - rows tell nobody
            await asyncio.sleep(0.02)


def cancel(run: Run, repeat: StepRepeat) -> None:
    cancel_repeat(run.principal, run.id, repeat.repeat_id)


def a_run(*words: str, **facts: Any) -> Run:
    """A run whose step `seed` says these words when it runs again."""
    return kept_run(
        Worker(),
        node("seed", command=list(words), env={"BREAK": "yes"}, **facts),
        node("other", command=["out:other"]),
    )


async def test_a_step_runs_again_and_its_unit_stays(runtime: FakeRuntime, tmp_path: Path):
    exports = [{"path": "made.txt", "format": "raw", "on": "always"}]
    words = ("env:BREAK", "write:made.txt=by me", "out:done")
    run = await on_thread(a_run, *words, artifactExports=exports)
    repeat = await on_thread(ask, run, env={"BREAK": "no"})

    async with repeating(runtime, tmp_path):
        row = await ended(repeat)

    assert (row.state, row.exit_code) == ("succeeded", 0)
    assert await on_thread(output, repeat) == ["no", "done"]
    assert await on_thread(lambda: [each.path for each in row.artifacts.all()]) == ["made.txt"]
    [unit] = runtime.units.values()
    assert unit.unit.state is UnitState.ENDED
    assert unit.unit.labels[ownership.ATTEMPT] == "2"


async def test_its_next_attempt_is_made_ready_as_it_would_be_asked_for(
    runtime: FakeRuntime, tmp_path: Path
):
    run = await on_thread(a_run, "env:BREAK")
    repeat = await on_thread(ask, run, env={"BREAK": "no"})

    async with repeating(runtime, tmp_path) as loop:
        await ended(repeat)
        await loop.until_idle()
        [ready] = runtime.stood_by
        again = await on_thread(ask, run, env={"BREAK": "no"})
        await ended(again)

    [unit] = runtime.units.values()
    assert ready.attempt == 3
    assert ready.environment == unit.launch.environment
    assert (ready.name, ready.program) == (unit.launch.name, unit.launch.program)


async def test_nothing_is_made_ready_for_a_service_or_behind_a_cancel(
    runtime: FakeRuntime, tmp_path: Path
):
    words = ("out:ready", "serve")
    ready = {"log": "ready", "timeoutMs": 9000}
    service = await on_thread(a_run, *words, kind="service", ready=ready)
    task = await on_thread(a_run, *words)
    of_service = await on_thread(ask, service)
    of_task = await on_thread(ask, task)

    async with repeating(runtime, tmp_path) as loop:
        await ended(of_service)
        await written(of_task)
        await on_thread(cancel, task, of_task)
        await ended(of_task)
        await loop.until_idle()

    assert runtime.stood_by == []


async def test_one_that_fails_is_judged_as_in_a_run(runtime: FakeRuntime, tmp_path: Path):
    run = await on_thread(
        a_run, "out:all wrong", evaluation={"expectExit": 0, "failOnLogs": ["wrong"]}
    )
    repeat = await on_thread(ask, run)

    async with repeating(runtime, tmp_path):
        row = await ended(repeat)

    assert (row.state, row.reason) == ("failed", "fail_on_logs_matched")


async def test_given_files_replace_those_of_the_step_alone(runtime: FakeRuntime, tmp_path: Path):
    run = await on_thread(a_run, "cat:seed.txt")
    repeat = await on_thread(ask, run, files={"seed.txt": b"other", "suite.star": b""})

    async with repeating(runtime, tmp_path):
        await ended(repeat)

    assert await on_thread(output, repeat) == ["other"]
    assert all("seed.txt" not in files for files in runtime.shared_files.values())


async def test_a_service_is_awaited_and_left_running(runtime: FakeRuntime, tmp_path: Path):
    run = await on_thread(
        a_run, "out:ready", "serve", kind="service", ready={"log": "ready", "timeoutMs": 9000}
    )
    repeat = await on_thread(ask, run)

    async with repeating(runtime, tmp_path):
        row = await ended(repeat)

    assert row.state == "succeeded"
    [unit] = runtime.units.values()
    assert unit.unit.state is UnitState.RUNNING
    assert await on_thread(output, repeat) == ["ready"]


async def test_the_unit_of_the_attempt_before_goes(runtime: FakeRuntime, tmp_path: Path):
    run = await on_thread(a_run, "out:x")

    async with repeating(runtime, tmp_path):
        for attempt in (2, 3):
            repeat = await on_thread(ask, run)
            assert (await ended(repeat)).attempt == attempt

    [unit] = runtime.units.values()
    assert unit.unit.labels[ownership.ATTEMPT] == "3"


async def test_a_canceled_one_is_stopped(runtime: FakeRuntime, tmp_path: Path):
    run = await on_thread(a_run, "out:begun", "busy")
    repeat = await on_thread(ask, run)

    async with repeating(runtime, tmp_path):
        await written(repeat)
        await on_thread(cancel, run, repeat)
        row = await ended(repeat)

    assert (row.state, row.reason) == ("canceled", "canceled")
    assert not runtime.units


async def test_the_end_of_the_environment_ends_it(runtime: FakeRuntime, tmp_path: Path):
    run = await on_thread(a_run, "out:begun", "busy")
    repeat = await on_thread(ask, run)

    async with repeating(runtime, tmp_path):
        await written(repeat)
        await on_thread(end_keeping, run)
        row = await ended(repeat)

    assert (row.state, row.detail) == ("canceled", "the environment is no longer kept")


async def test_a_runner_that_comes_back_stops_and_fails_what_was_running(
    runtime: FakeRuntime, tmp_path: Path
):
    run = await on_thread(a_run, "out:begun", "busy")
    repeat = await on_thread(ask, run)
    async with repeating(runtime, tmp_path):
        await written(repeat)
    [unit] = runtime.units.values()
    assert unit.unit.state is UnitState.RUNNING

    async with repeating(runtime, tmp_path):
        row = await ended(repeat)
        again = await on_thread(ask, run, command="exit:0")
        second = await ended(again)

    assert (row.state, row.reason) == ("failed", "agent_lost")
    assert "the runner restarted" in row.detail
    assert second.attempt == 3


async def test_an_image_that_is_missing_fails_it(runtime: FakeRuntime, tmp_path: Path):
    run = await on_thread(a_run, "out:x", image="nowhere/none:1")
    repeat = await on_thread(ask, run)

    async with repeating(runtime, tmp_path):
        row = await ended(repeat)

    assert (row.state, row.reason) == ("failed", "image_missing")
    assert "nowhere/none:1" in row.detail


async def test_a_fault_of_the_runner_fails_it_too(
    runtime: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = await on_thread(a_run, "out:x")
    repeat = await on_thread(ask, run)

    def refuse(*_: Any) -> Any:
        raise RuntimeError("boom")

    monkeypatch.setattr("apps.workers.repeats.parse_step_spec", refuse)
    async with repeating(runtime, tmp_path):
        row = await ended(repeat)

    assert (row.state, row.reason) == ("failed", "internal_error")
    assert "the log of the runner" in row.detail
