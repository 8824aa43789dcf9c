"""The sweep: one process at a time, independent of the broker; the thread that runs it."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import generate_latest

from apps.executions import api
from apps.executions.models import WorkLease
from apps.executions.services import enqueue as publishing
from apps.executions.services import sweep as sweeping
from apps.executions.services import work_leases
from apps.executions.services.cancellations import cancel
from apps.executions.services.sweep import SweeperPart, sweep
from apps.observability.api import metrics
from apps.streams.api import listen
from kernel import clock
from kernel.background_writer import BackgroundWriter, QueueLimits
from tests.apps.executions.runs import Worker, booted_run, let_leases_lapse, node, queued_run


@pytest.mark.store
def test_one_process_at_a_time_sweeps(monkeypatch):
    assert sweep()
    monkeypatch.setattr(work_leases, "_HOLDER", "another process")
    assert not sweep()
    WorkLease.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    assert sweep()


@pytest.mark.store
def test_who_stops_sweeping_leaves_it_to_the_others_at_once(monkeypatch):
    assert sweep()
    SweeperPart().finish()
    monkeypatch.setattr(work_leases, "_HOLDER", "another process")
    assert sweep()
    monkeypatch.setattr(work_leases, "_HOLDER", "a third one")
    SweeperPart().finish()
    assert not sweep()


@pytest.mark.slow
def test_only_the_process_that_sweeps_tells_how_many_runs_there_are(monkeypatch):
    queued_run(node("a"))
    assert sweep()
    names = ("partita.executions.active", "partita.agents.online")
    assert all(list(metrics.standing(name)) for name in names)
    assert "partita_agents_online 0.0" in generate_latest(metrics.registry).decode()
    monkeypatch.setattr(work_leases, "_HOLDER", "another process")
    assert not sweep()
    assert not any(list(metrics.standing(name)) for name in names)
    told = generate_latest(metrics.registry).decode()  # a NaN would spoil a sum over processes
    assert "partita_agents_online" not in told
    assert "partita_executions_active{" not in told


def test_a_run_begins_although_every_message_was_lost():
    run = queued_run(node("a"))
    sweep()
    assert run.status == "Booting"


def test_what_fails_in_one_kind_of_work_does_not_stop_the_others(monkeypatch, caplog):
    def broken() -> None:
        raise ValueError("broken")

    monkeypatch.setattr(sweeping, "_WORK", (broken, *sweeping._WORK))
    run = queued_run(node("a"))
    sweep()
    assert run.status == "Booting"
    assert "sweep: broken" in caplog.text


def test_a_claim_whose_answer_was_lost_goes_back_though_the_step_may_not_run_twice(worker: Worker):
    """Invariant 9 forbids running it twice; it never ran: its supervisor lives and has it not."""
    run = booted_run(node("unit", kind="test"))
    api.record_reports(worker.supervisor, claims=1)
    let_leases_lapse()
    sweep()
    assert run.statuses == {"unit": "queued"}
    assert worker.claim() == ["unit"]
    assert worker.jobs["unit"]["attempt"] == 2


def test_a_renewed_lease_that_lapses_is_no_lost_claim(worker: Worker):
    """Invariant 9: who renewed it had begun it, whatever else was heard of that."""
    run = booted_run(node("unit", kind="test"))
    api.record_reports(worker.supervisor, claims=1)
    let_leases_lapse(renewed=True)
    sweep()
    assert run.statuses == {"unit": "failed"}


def test_supervisors_are_woken_for_work_and_for_what_must_stop(worker: Worker):
    woken: list[str] = []
    listen("work-unbound", lambda: woken.append("work"))
    listen("jobs:runner-1", lambda: woken.append("jobs"))
    run = booted_run(node("a"))
    assert woken == ["work"]
    worker.claim()
    cancel(run.principal, run.id)
    assert woken == ["work", "jobs"]


@pytest.mark.slow
def test_the_pause_before_a_retry_ends_with_a_nudge(worker: Worker):
    booted_run(node("flaky", retries=1))
    worker.claim()
    awake = threading.Event()
    unsubscribe = listen("work", awake.set)
    worker.fail("flaky")
    claimed: list[str] = []
    while not claimed and awake.wait(30):
        awake.clear()  # a pause of an earlier test may have ended
        claimed = worker.claim()
    unsubscribe()
    assert claimed == ["flaky"]


def test_the_sweeper_thread_sweeps_until_it_is_stopped(monkeypatch):
    swept = threading.Semaphore(0)
    monkeypatch.setattr("apps.executions.services.sweep.sweep", lambda _: swept.release())

    async def serve() -> None:
        part = SweeperPart(interval_s=0.01)
        await part.start()
        assert await asyncio.to_thread(swept.acquire, timeout=180)
        assert await asyncio.to_thread(swept.acquire, timeout=180)
        await part.stop()

    asyncio.run(serve())
    assert "sweeper" not in [thread.name for thread in threading.enumerate()]


def test_a_server_that_drains_sweeps_no_more(monkeypatch):
    swept = threading.Semaphore(0)
    monkeypatch.setattr("apps.executions.services.sweep.sweep", lambda _: swept.release())

    async def serve() -> None:
        part = SweeperPart()
        await part.start()
        assert await asyncio.to_thread(swept.acquire, timeout=5)
        await part.drain()
        assert "sweeper" not in [thread.name for thread in threading.enumerate()]
        await part.stop()

    asyncio.run(serve())


def fresh_writer() -> BackgroundWriter[Any]:
    return BackgroundWriter("enqueue", publishing._send, QueueLimits(items=1_000))


class FrozenBroker:
    """Takes a message and never answers."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.thawed = threading.Event()

    def send_task(self, *_args: object, **_options: object) -> None:
        self.asked.set()
        self.thawed.wait(30)


def test_a_frozen_broker_delays_nobody(monkeypatch):
    """Invariant 37: one frozen part that blocks another's answer."""
    broker = FrozenBroker()
    monkeypatch.setattr(publishing, "celery_application", lambda: broker)
    monkeypatch.setattr(publishing, "_writer", fresh_writer())

    def tell() -> None:
        for _ in range(1_500):  # more than wait at most
            publishing.enqueue("executions.dispatch")

    telling = threading.Thread(target=tell, daemon=True)
    telling.start()
    telling.join(30)
    delayed = telling.is_alive()
    assert broker.asked.wait(30)
    broker.thawed.set()
    assert not delayed


def test_a_broker_that_refuses_is_tried_again_with_the_next_message(monkeypatch):
    sent = threading.Semaphore(0)

    class Refusing:
        def send_task(self, *_args: object, **_options: object) -> None:
            sent.release()
            raise ConnectionRefusedError

    monkeypatch.setattr(publishing, "celery_application", Refusing)
    monkeypatch.setattr(publishing, "_writer", fresh_writer())
    for _ in range(2):
        publishing.enqueue("executions.dispatch")
    assert sent.acquire(timeout=180)
    assert sent.acquire(timeout=180)
