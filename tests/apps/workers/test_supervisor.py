"""The supervisor between its two ports: tasks and tests (reference: control-plane 14.1)."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from tests.apps.workers.conftest import Stage


async def test_a_task_that_ends_as_expected_succeeds_with_all_its_lines(stage: Stage) -> None:
    async with stage.supervisor():
        job = await stage.add("out:one", "err:two")

        outcome = await stage.store.outcome(job)

    assert (outcome.status, outcome.exit_code) == ("succeeded", 0)
    assert [(line.text, line.level) for line in job.lines] == [("one", "info"), ("two", "warn")]
    assert [state for state, _ in job.states] == ["running"]


async def test_the_unit_is_removed_once_its_completion_is_stored(stage: Stage) -> None:
    """Invariant 14."""
    async with stage.supervisor():
        job = await stage.add("out:one")
        await stage.store.outcome(job)
        await stage.until_removed()

    assert stage.runtime.units == {}


async def test_nothing_is_kept_of_steps_that_are_over(stage: Stage) -> None:
    """Invariant 38: memory that grows with the number of finished runs."""
    async with stage.supervisor() as supervisor:
        for words in (("out:one",), ("exit:3",)):
            await stage.store.outcome(await stage.add(*words))
        await supervisor.until_idle()

        parts = (supervisor, supervisor._ahead)
        members = {name: value for part in parts for name, value in vars(part).items()}
        assert {n: v for n, v in members.items() if isinstance(v, dict | set) and v} == {}
        assert supervisor._leases._renewed_at == {}


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


async def test_what_a_unit_waits_for_is_reported_until_it_starts(stage: Stage) -> None:
    async with stage.supervisor():
        stage.runtime.short_of["short"] = "the namespace's quota is used up: s3cret"
        job = await stage.add("out:one", node_id="short", env={"KEY": "s3cret"}, secretKeys=["KEY"])
        await stage.store.until(lambda: bool(job.states))

        stage.runtime.has_enough.set()
        outcome = await stage.store.outcome(job)

    assert outcome.status == "succeeded"
    waiting = ("waiting", "the namespace's quota is used up: ***")
    assert job.states == [waiting, ("waiting", ""), ("running", "")]


async def test_a_step_that_waits_for_its_unit_can_be_canceled(stage: Stage) -> None:
    async with stage.supervisor():
        stage.runtime.short_of["short"] = "no node takes the step"
        job = await stage.add("out:one", node_id="short")
        await stage.store.until(lambda: bool(job.states))

        stage.last.cancel(job, "canceled")
        outcome = await stage.store.outcome(job)

    assert outcome.status == "canceled"


async def test_a_task_that_takes_too_long_is_stopped(stage: Stage) -> None:
    async with stage.supervisor():
        job = await stage.add("out:begun", "sleep:60", timeoutMs=100)

        outcome = await stage.store.outcome(job)

    assert (outcome.reason, outcome.error) == ("timeout", "still running after 100 ms")
    assert job.texts == ["begun"]


async def test_a_canceled_task_stops_and_completes_canceled(stage: Stage) -> None:
    async with stage.supervisor():
        job = await stage.add("out:begun", "serve")
        await stage.store.until(lambda: job.texts == ["begun"])

        stage.last.cancel(job, "canceled")
        outcome = await stage.store.outcome(job)

    assert outcome.status == "canceled"


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
    assert (outcome.reason, outcome.error) == ("artifact_missing", "artifact no.txt is missing")
    assert [each.path for each in outcome.missing_artifacts] == ["no.txt"]


async def test_a_declared_artifact_that_is_missing_is_reported(stage: Stage) -> None:
    exports = [
        {"path": "report.xml", "format": "junit"},
        {"path": "on-failure.txt", "on": "failure"},
    ]
    async with stage.supervisor():
        job = await stage.add("share:report.xml=<x/>", artifactExports=exports)

        outcome = await stage.store.outcome(job)

    (missing,) = outcome.missing_artifacts
    assert outcome.status == "succeeded"
    assert missing.path == "report.xml"
    assert "$PARTITA_ARTIFACTS_DIR" in missing.hint


async def test_no_more_than_its_capacity_runs_at_once(stage: Stage) -> None:
    async with stage.supervisor(capacity=2):
        jobs = [await stage.add("sleep:0.05", node_id=f"step-{number}") for number in range(6)]
        most = 0
        while any(job.outcome is None for job in jobs):
            running = [unit for unit in stage.runtime.units.values() if unit.ended is None]
            most = max(most, len(running))
            await asyncio.sleep(0.005)

    assert most == 2


async def test_a_step_that_cannot_be_read_fails_at_once(stage: Stage) -> None:
    """Invariant 5: it does not wait for its lease to run out."""
    async with stage.supervisor():
        job = await stage.add("out:x", node={"ports": ["not a port"]})

        outcome = await stage.store.outcome(job)

    assert (outcome.status, outcome.reason) == ("failed", "internal_error")
    assert "not a port" in outcome.error


async def test_a_runtime_that_is_away_fails_the_step(stage: Stage) -> None:
    stage.runtime.away = True
    async with stage.supervisor():
        job = await stage.add("out:x")

        outcome = await stage.store.outcome(job)

    assert outcome.reason == "runtime_unavailable"
    stage.runtime.away = False


@pytest.mark.parametrize("form", ["hunter2-hunter2", base64.b64encode(b"hunter2-hunter2").decode()])
async def test_secrets_are_masked_in_lines_and_errors(stage: Stage, form: str) -> None:
    """Invariant 19."""
    async with stage.supervisor():
        job = await stage.add(
            f"out:the password is {form}!",
            "env:PASSWORD",
            env={"PASSWORD": "hunter2-hunter2"},
            secretKeys=["PASSWORD"],
        )

        await stage.store.outcome(job)

    assert job.texts == ["the password is ***!", "***"]


async def test_artifacts_that_are_text_are_masked(stage: Stage) -> None:
    """Invariant 19."""
    secret: dict[str, Any] = {"env": {"TOKEN": "hunter2-hunter2"}, "secretKeys": ["TOKEN"]}
    async with stage.supervisor():
        job = await stage.add(
            "write:a.txt=it is hunter2-hunter2", artifactExports=[{"path": "*.txt"}], **secret
        )
        await stage.store.outcome(job)

    assert [upload.body for upload in job.uploads] == [b"it is ***"]
