"""Services between the supervisor's two ports: ready, detached, stopped.

(reference: control-plane 14.1)
"""

from __future__ import annotations

import asyncio

from tests.apps.workers.conftest import Stage


async def test_a_service_is_healthy_when_its_log_says_so_and_ends_at_teardown(stage: Stage) -> None:
    service = {"kind": "service", "ready": {"log": "open"}}
    async with stage.supervisor():
        job = await stage.add("out:the door is open", "serve", node=service)
        await stage.store.state(job, "healthy")
        assert job.outcome is None

        stage.last.cancel(job, "teardown")
        outcome = await stage.store.outcome(job)

    assert outcome.status == "canceled"
    assert job.texts == ["the door is open"]


async def test_a_detached_service_goes_on_running(stage: Stage) -> None:
    service = {"kind": "service", "ready": {"log": "open"}}
    async with stage.supervisor():
        job = await stage.add("out:open", "serve", node=service)
        await stage.store.state(job, "healthy")

        stage.last.cancel(job, "detach")
        outcome = await stage.store.outcome(job)

        assert outcome.status == "succeeded"
        assert len(stage.runtime.units) == 1


async def test_a_service_that_ends_has_failed(stage: Stage) -> None:
    service = {"kind": "service", "ready": {"log": "never"}}
    async with stage.supervisor():
        job = await stage.add("out:oh", "exit:1", node=service)

        outcome = await stage.store.outcome(job)

    assert (outcome.reason, outcome.exit_code) == ("service_exited", 1)
    assert job.texts == ["oh"]


async def test_a_service_that_never_gets_ready_has_failed(stage: Stage) -> None:
    service = {"kind": "service", "ready": {"log": "never", "timeoutMs": 100}}
    async with stage.supervisor():
        job = await stage.add("serve", node=service)

        outcome = await stage.store.outcome(job)

    assert outcome.reason == "not_ready"


async def test_a_forbidden_line_fails_a_starting_service(stage: Stage) -> None:
    service = {"kind": "service", "ready": {"log": "never"}}
    async with stage.supervisor():
        job = await stage.add(
            "out:FATAL: no disk", "serve", node=service, evaluation={"failOnLogs": ["FATAL"]}
        )

        outcome = await stage.store.outcome(job)

    assert outcome.reason == "fail_on_logs_matched"


async def test_a_service_without_its_expected_lines_is_not_healthy(stage: Stage) -> None:
    """Invariant 1: though its probe passes."""
    service = {"kind": "service", "ready": {"log": "open", "timeoutMs": 300}}
    async with stage.supervisor():
        job = await stage.add(
            "out:open", "serve", node=service, evaluation={"expectLogs": ["open", "warm"]}
        )

        outcome = await stage.store.outcome(job)

    assert (outcome.status, outcome.reason) == ("failed", "expect_logs_missing")
    assert "no line contains 'warm'" in outcome.error


async def test_services_do_not_use_up_the_capacity(stage: Stage) -> None:
    service = {"kind": "service", "ready": {"log": "open"}}
    async with stage.supervisor(capacity=1):
        for number in range(3):
            await stage.add("out:open", "serve", node=service, node_id=f"service-{number}")
        job = await stage.add("out:ran", node_id="task")

        outcome = await stage.store.outcome(job)

    assert outcome.status == "succeeded"


async def test_released_runs_are_torn_down(stage: Stage) -> None:
    """Invariant 14."""
    service = {"kind": "service", "ready": {"log": "open"}}
    async with stage.supervisor():
        job = await stage.add("out:open", "serve", node=service)
        await stage.store.state(job, "healthy")
        stage.last.cancel(job, "detach")
        await stage.store.outcome(job)

        stage.store.released.add(stage.run_id)
        async with asyncio.timeout(5):
            while stage.run_id not in stage.runtime.released:  # noqa: ASYNC110 - the fake is mute
                await asyncio.sleep(0.01)

    assert stage.runtime.units == {}


async def test_an_ended_unit_stays_where_the_environment_may_be_kept(stage: Stage) -> None:
    async with stage.supervisor() as supervisor:
        job = await stage.add("out:half", "exit:3", keepUnits=True)
        outcome = await stage.store.outcome(job)
        await supervisor.until_idle()

    assert (outcome.status, outcome.exit_code) == ("failed", 3)
    assert len(stage.runtime.units) == 1


async def test_the_unit_of_a_canceled_step_does_not_stay(stage: Stage) -> None:
    async with stage.supervisor():
        job = await stage.add("serve", keepUnits=True)
        await stage.store.state(job, "running")
        stage.last.cancel(job, "canceled")
        outcome = await stage.store.outcome(job)
        await stage.until_removed()

    assert outcome.status == "canceled"
