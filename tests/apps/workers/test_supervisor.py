"""The supervisor between its two ports (contract 14.1, 15.2)."""

from __future__ import annotations

import asyncio
import base64

import pytest

from apps.workers.domain.output import Record
from tests.apps.workers.conftest import Stage


async def test_a_task_that_ends_as_expected_succeeds_with_all_its_lines(stage: Stage) -> None:
    async with stage.supervisor():
        job = await stage.add("out:one", "err:two")

        outcome = await stage.store.outcome(job)

    assert (outcome.status, outcome.exit_code) == ("succeeded", 0)
    assert [(line.text, line.level) for line in job.lines] == [("one", "info"), ("two", "warn")]
    assert [state for state, _ in job.states] == ["running"]


async def test_the_unit_is_removed_once_its_completion_is_stored(stage: Stage) -> None:
    async with stage.supervisor():
        job = await stage.add("out:one")
        await stage.store.outcome(job)
        await stage.until_removed()

    assert stage.runtime.units == {}


async def test_a_wrong_exit_code_fails(stage: Stage) -> None:
    async with stage.supervisor():
        job = await stage.add("exit:3")

        outcome = await stage.store.outcome(job)

    assert (outcome.reason, outcome.exit_code) == ("exit_nonzero", 3)


async def test_an_image_that_cannot_be_pulled_is_said_before_and_after(stage: Stage) -> None:
    async with stage.supervisor():
        job = await stage.add("out:x", node={"image": "no/such:image"})

        outcome = await stage.store.outcome(job)

    assert outcome.reason == "image_missing"
    assert job.states == [("image-pull", "pulling no/such:image")]


async def test_a_task_that_takes_too_long_is_stopped(stage: Stage) -> None:
    async with stage.supervisor():
        job = await stage.add("out:begun", "sleep:60", timeoutMs=100)

        outcome = await stage.store.outcome(job)

    assert (outcome.reason, outcome.error) == ("timeout", "still running after 0.1 s")
    assert job.texts == ["begun"]


async def test_a_canceled_task_stops_and_completes_canceled(stage: Stage) -> None:
    async with stage.supervisor():
        job = await stage.add("out:begun", "serve")
        await stage.store.until(lambda: job.texts == ["begun"])

        stage.last.cancel(job, "canceled")
        outcome = await stage.store.outcome(job)

    assert outcome.status == "canceled"


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


async def test_expected_and_forbidden_lines_are_judged(stage: Stage) -> None:
    rules = {"expectLogs": ["done"], "failOnLogs": ["oops"]}
    async with stage.supervisor():
        job = await stage.add("out:oops", evaluation=rules)

        outcome = await stage.store.outcome(job)

    assert outcome.reason == "fail_on_logs_matched"
    assert "no line contains 'done'" in outcome.error


async def test_artifacts_are_handed_in(stage: Stage) -> None:
    exports = [{"path": "*.xml", "format": "junit"}, {"path": "no.txt", "required": True}]
    async with stage.supervisor():
        job = await stage.add("write:a.xml=<x/>", artifactExports=exports)

        outcome = await stage.store.outcome(job)

    assert [(upload.path, upload.body) for upload in job.uploads] == [("a.xml", b"<x/>")]
    assert outcome.reason == "artifact_missing"


async def test_services_do_not_use_up_the_capacity(stage: Stage) -> None:
    service = {"kind": "service", "ready": {"log": "open"}}
    async with stage.supervisor(capacity=1):
        for number in range(3):
            await stage.add("out:open", "serve", node=service, node_id=f"service-{number}")
        job = await stage.add("out:ran", node_id="task")

        outcome = await stage.store.outcome(job)

    assert outcome.status == "succeeded"


async def test_no_more_than_its_capacity_runs_at_once(stage: Stage) -> None:
    async with stage.supervisor(capacity=2):
        jobs = [await stage.add("sleep:0.05", node_id=f"step-{number}") for number in range(6)]
        most = 0
        while any(job.outcome is None for job in jobs):
            running = [unit for unit in stage.runtime.units.values() if unit.ended is None]
            most = max(most, len(running))
            await asyncio.sleep(0.005)

    assert most == 2


# Invariants 6, 11: the same attempt goes on, no line is lost or doubled.
async def test_a_successor_goes_on_with_the_same_unit_and_no_line_twice(stage: Stage) -> None:
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


# Invariant 7: a stale attempt has no effect, and its unit does not live on.
async def test_a_job_that_is_another_attempts_is_dropped_with_its_unit(stage: Stage) -> None:
    async with stage.supervisor():
        job = await stage.add("out:first", "sleep:0.2", "out:late", "serve")
        await stage.store.until(lambda: job.texts == ["first"])

        job.attempt = 2
        await stage.until_removed()

    assert job.texts == ["first"]
    assert job.outcome is None


async def test_a_lost_lease_drops_the_job(stage: Stage) -> None:
    async with stage.supervisor():
        job = await stage.add("serve")
        await stage.store.state(job, "running")

        job.attempt = 2
        stage.last.wake()
        await stage.until_removed()


# Invariant 6: after a lease and 2/3 of its grace another supervisor may soon have the job.
async def test_what_was_not_renewed_for_too_long_is_killed(stage: Stage) -> None:
    async with stage.supervisor(lease_s=0.3):
        job = await stage.add("serve", leaseMs=300)
        await stage.store.state(job, "running")

        stage.store.away = True
        await stage.until_removed()
        assert job.outcome is None

        stage.store.away = False
        assert (await stage.store.outcome(job)).status == "canceled"


async def test_a_claim_that_may_be_older_than_its_lease_is_confirmed_first(stage: Stage) -> None:
    """Invariant 6: a host that stood still finds the answer to an old claim when it wakes up."""
    async with stage.supervisor(lease_s=0.2) as supervisor:
        await asyncio.sleep(0.4)  # the claim waits, longer than a lease
        await stage.add("serve", node_id="taken", current_attempt=2, leaseMs=200)
        await asyncio.sleep(0.4)
        ours = await stage.add("out:x", node_id="ours", leaseMs=200)

        assert (await stage.store.outcome(ours)).status == "succeeded"
        await supervisor.until_idle()

    assert [name.rpartition("-")[0] for name in stage.runtime.started] == [
        f"partita-{stage.run_id}-ours"
    ]


async def test_a_step_that_cannot_be_read_fails_at_once(stage: Stage) -> None:
    """Invariant 5: it does not wait for its lease to run out."""
    async with stage.supervisor():
        job = await stage.add("out:x", node={"ports": ["not a port"]})

        outcome = await stage.store.outcome(job)

    assert (outcome.status, outcome.reason) == ("failed", "internal_error")
    assert "not a port" in outcome.error


async def test_the_grace_that_the_control_plane_names_is_waited_for(stage: Stage) -> None:
    stage.store.lease_grace_s = 60
    async with stage.supervisor(lease_s=0.3):
        job = await stage.add("sleep:0.9", leaseMs=300)
        await stage.store.state(job, "running")

        stage.store.away = True
        await asyncio.sleep(0.8)  # longer than a lease and 2/3 of another
        stage.store.away = False

        assert (await stage.store.outcome(job)).status == "succeeded"


async def test_leases_are_renewed_while_the_loop_is_busy(stage: Stage) -> None:
    async with stage.supervisor(lease_s=0.3):
        job = await stage.add("serve", leaseMs=300)
        await stage.store.state(job, "running")
        before = job.renewals

        blocked = asyncio.get_running_loop().time() + 0.6
        while asyncio.get_running_loop().time() < blocked:
            pass  # a step that starves the loop

        assert job.renewals - before >= 3


async def test_lines_wait_for_a_control_plane_that_is_away(stage: Stage) -> None:
    async with stage.supervisor():
        job = await stage.add("out:before", "sleep:0.3", "out:after")
        await stage.store.until(lambda: job.texts == ["before"])

        stage.store.away = True
        await asyncio.sleep(0.6)
        stage.store.away = False
        outcome = await stage.store.outcome(job)

    assert (outcome.status, job.texts) == ("succeeded", ["before", "after"])


async def test_a_runtime_that_is_away_fails_the_step(stage: Stage) -> None:
    stage.runtime.away = True
    async with stage.supervisor():
        job = await stage.add("out:x")

        outcome = await stage.store.outcome(job)

    assert outcome.reason == "runtime_unavailable"
    stage.runtime.away = False


async def test_released_runs_are_torn_down(stage: Stage) -> None:
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


# Invariant 19.
@pytest.mark.parametrize("form", ["hunter2-hunter2", base64.b64encode(b"hunter2-hunter2").decode()])
async def test_secrets_are_masked_in_lines_and_errors(stage: Stage, form: str) -> None:
    async with stage.supervisor():
        job = await stage.add(
            f"out:the password is {form}!",
            "env:PASSWORD",
            env={"PASSWORD": "hunter2-hunter2"},
            secretKeys=["PASSWORD"],
        )

        await stage.store.outcome(job)

    assert job.texts == ["the password is ***!", "***"]


async def test_a_long_line_comes_in_pieces_also_across_a_crash(stage: Stage) -> None:
    job = await stage.add("sleep:0.2", "serve")
    async with stage.supervisor():
        await stage.store.state(job, "running")
        running = next(iter(stage.runtime.units.values()))
        running.records.append(Record(1, "stdout", b"a" * 16384, None))
        await stage.runtime.say(running, "stderr", "between")
        await stage.store.until(lambda: len(job.texts) == 2)
    running.records.append(Record(3, "stdout", b"tail\n", None))

    async with stage.supervisor():
        await stage.store.until(lambda: len(job.texts) == 3)
        stage.last.cancel(job, "canceled")
        await stage.store.outcome(job)

    assert [(len(line.text), line.continued) for line in job.lines] == [
        (16384, True),
        (7, False),
        (4, False),
    ]
