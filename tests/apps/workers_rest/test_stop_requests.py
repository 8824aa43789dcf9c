"""Calls to a worker's own address when its jobs are to end (reference: control-plane 15.3)."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from apps.agents.models import Agent
from apps.console.embedded.server import CeleryThread
from apps.executions import api
from apps.executions.domain.states import RunReason
from apps.executions.models import Execution
from apps.executions.services import cancellations, run_aggregate, run_outbox
from apps.executions.services.run_progression import fail_run
from apps.executions.services.sweep import _end_overdue_runs
from apps.operations.api import celery_application
from apps.streams.api import unit_of_work
from apps.workers.services.stop_requests import (
    WITHIN_S,
    StopRequest,
    send_stop_requests,
    send_to_workers,
)
from kernel import clock
from tests.apps.executions.runs import Run, booted_run, deadline_is_over, node
from tests.apps.workers_rest.conftest import ONE_BACKEND, SECRET, RemoteWorker
from tests.support.worker_doors import Door, RecordingWorker, served
from worker.credentials import derived_token

pytestmark = pytest.mark.slow

CREDENTIAL = f"Bearer {derived_token(SECRET, 'edge-1')}"
JOB = api.JobToStop(agent_id="edge-1", job_id="job_" + "x" * 22)


@pytest.fixture
def sent(monkeypatch) -> list[tuple[str, ...]]:
    """Calls that were asked for, once what asked is committed."""
    messages: list[tuple[str, ...]] = []

    def record(task: str, *arguments: str, **_options: Any) -> None:
        if task == "workers.call_off":
            messages.append(arguments)

    monkeypatch.setattr(run_outbox, "enqueue", record)
    return messages


@pytest.fixture
def log() -> Iterator[Callable[[], str]]:
    lines: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler, loggers = Keeping(), [logging.getLogger(name) for name in ("partita.workers", "httpx")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    yield lambda: "\n".join(lines)
    for logger, level in zip(loggers, levels, strict=True):
        logger.removeHandler(handler)
        logger.setLevel(level)


def begun(worker: RemoteWorker, *ids: str, **facts: Any) -> Run:
    run = booted_run(*(node(id_, **facts) for id_ in ids))
    worker.claim_all()
    for id_ in ids:
        worker.report(id_, "state", state="running")
    return run


def cancel(run: Run) -> None:
    cancellations.cancel(run.principal, run.id)


def jobs(run: Run) -> list[tuple[str, bool]]:
    names = {run.step(id_).job_id: id_ for id_ in run.statuses}
    return [(names[job.job_id], job.run_is_over) for job in api.jobs_to_stop(run.id)]


def test_a_cancel_asks_for_calls_once_it_is_stored(worker, sent):
    run = begun(worker, "a", "b")
    assert (sent, jobs(run)) == ([], [])

    cancel(run)

    assert sent == [(run.id,)]
    assert jobs(run) == [("a", False), ("b", False)]


def test_what_is_rolled_back_calls_nobody(worker, sent):
    """Calls follow a commit, never a transaction that may fail."""
    run = begun(worker, "a")

    @unit_of_work
    def canceled_in_vain() -> None:
        cancel(run)
        raise KeyError

    with pytest.raises(KeyError):
        canceled_in_vain()

    assert (sent, run.status) == ([], "Booting")


def test_the_failure_of_a_run_as_a_whole_stops_its_jobs_by_calls_too(worker, sent):
    run = begun(worker, "a")

    @unit_of_work
    def time_is_over() -> None:
        board = run_aggregate.load_run(run.pk)
        assert board is not None
        fail_run(board, RunReason.RUN_TIMEOUT, "too long")
        run_aggregate.save_runs([board])

    time_is_over()

    assert (sent, jobs(run)) == ([(run.id,)], [("a", False)])


def test_a_teardown_cancels_nothing_and_the_end_cleans_up(worker, sent):
    """A service at its teardown ends well: only what is over is removed."""
    run = begun(worker, "base", kind="service")
    worker.report("base", "state", state="healthy")
    assert (run.step("base").cancel_reason, sent, jobs(run)) == ("teardown", [], [])

    worker.complete("base", "canceled", reason="canceled")

    assert run.status == "Healthy"
    assert (sent, jobs(run)) == ([(run.id,)], [("base", True)])


def test_a_forced_end_concerns_every_job_that_was_still_at_work(worker, other, sent):
    run = booted_run(node("done"), node("a"), node("b"), node("later", after=["done"]))
    worker.claim_all()
    for id_ in ("done", "a", "b"):
        worker.report(id_, "state", state="running")
    worker.complete("done", exitCode=0)
    cancel(run)
    deadline_is_over(run)

    _end_overdue_runs()

    assert run.status == "Canceled"
    assert jobs(run) == [("a", True), ("b", True)]
    assert sent == [(run.id,), (run.id,)]


def test_a_worker_whose_jobs_ended_before_the_run_cleans_up_by_its_last_one(worker, other, sent):
    run = booted_run(node("one"), node("two"), node("slow"))
    for each, ids in ((worker, ("one", "two")), (other, ("slow",))):
        Execution.objects.filter(pk=run.pk).update(bound_agent_id="")  # as after a lost worker
        for _ in ids:
            each.claim()
    for each, id_ in ((worker, "one"), (worker, "two"), (other, "slow")):
        each.report(id_, "state", state="running")
        each.complete(id_, exitCode=0)

    assert run.status == "Healthy"
    assert jobs(run) == [("slow", True), ("two", True)]


def test_what_is_kept_alive_is_not_cleaned_up(worker):
    run = begun(worker, "a")
    worker.complete("a", exitCode=0)
    for until, ended in ((clock.now() + timedelta(hours=1), []), (clock.now(), [("a", True)])):
        Execution.objects.filter(pk=run.pk).update(keep_alive_until=until)

        assert jobs(run) == ended


def test_a_run_of_a_local_backend_calls_nobody(settings, sent):
    settings.PLATFORM_SETTINGS_FILE.write_text(ONE_BACKEND.replace("remote-agent", "local"))
    run = booted_run(node("a"))

    cancel(run)

    assert (run.status, sent) == ("Canceled", [])


def test_a_run_that_is_unknown_has_no_jobs():
    assert api.jobs_to_stop("run-0123456789ab") == ()
    send_stop_requests("run-0123456789ab")


def test_the_worker_that_holds_a_job_is_told_at_its_own_address(worker, other):
    door = RecordingWorker("edge-1", SECRET)
    with served(door) as url:
        worker.register(hostUrl=f"{url}/")
        run = begun(worker, "a")
        cancel(run)

        send_stop_requests(run.id)
        worker.complete("a", "canceled", reason="canceled")
        send_stop_requests(run.id)

    job_id = run.step("a").job_id
    assert door.told == [("cancel", job_id), ("cleanup", job_id)]
    assert run.status == "Canceled"


def test_another_workers_credential_opens_nothing(worker, log):
    """Invariant 8: what the secret makes of one name is of no use to another worker."""
    door = RecordingWorker("edge-2", SECRET)
    with served(door) as url:
        worker.register(hostUrl=url)
        run = begun(worker, "a")
        cancel(run)
        send_stop_requests(run.id)

    assert door.told == []
    assert "edge-1 answered 401" in log()


def test_up_makes_the_calls_on_its_own_celery_thread(worker):
    """From the cancel to the worker with nothing but what `up` starts."""
    door = RecordingWorker("edge-1", SECRET)
    celery = CeleryThread()
    celery.start()
    try:
        with served(door) as url:
            worker.register(hostUrl=url)
            run = begun(worker, "a")
            began = time.monotonic()
            cancel(run)
            while not door.told and time.monotonic() - began < 10:
                time.sleep(0.02)
    finally:
        celery.stop()

    assert door.told == [("cancel", run.step("a").job_id)]


def test_the_task_has_the_name_that_is_sent():
    application = celery_application()
    application.loader.import_default_modules()

    assert "workers.call_off" in application.tasks


def test_without_a_shared_secret_nobody_is_called(worker, settings):
    """Invariant 8."""
    with Door() as door:
        worker.register(hostUrl=door.url)
        run = begun(worker, "a")
        cancel(run)
        settings.AGENT_SHARED_SECRET = ""
        send_stop_requests(run.id)

    assert door.credentials == []


def test_a_worker_that_is_not_heard_of_is_not_called(worker):
    with Door() as door:
        worker.register(hostUrl=door.url)
        run = begun(worker, "a")
        cancel(run)
        Agent.objects.update(last_heartbeat_at=Agent.objects.get().registered_at.replace(year=2020))
        send_stop_requests(run.id)

    assert door.credentials == []


def test_a_redirect_is_not_followed(worker, log):
    """Invariants 22 and 23: the credential does not leave to the target."""
    with Door() as target, Door(status=307, location=f"{target.url}/elsewhere") as door:
        worker.register(hostUrl=door.url)
        run = begun(worker, "a")
        cancel(run)
        before = run.row
        send_stop_requests(run.id)

    assert (door.credentials, target.credentials) == ([CREDENTIAL], [])
    assert (run.row.version, run.status) == (before.version, "Canceling")
    assert "edge-1 answered 307" in log()


@pytest.mark.parametrize("status", [404, 500, 503])
def test_an_answer_that_is_a_failure_changes_nothing(worker, status, log):
    """Invariant 37, and 19: the log does not hold the credential."""
    with Door(status=status) as door:
        worker.register(hostUrl=door.url)
        run = begun(worker, "a")
        cancel(run)
        before = run.row
        send_stop_requests(run.id)

    assert door.credentials == [CREDENTIAL]
    assert (run.row.version, run.status) == (before.version, "Canceling")
    assert CREDENTIAL.removeprefix("Bearer ") not in log()
    assert SECRET not in log()


@pytest.mark.timed
def test_a_worker_that_hangs_costs_two_seconds_and_the_others_nothing(worker, other, log):
    """Invariant 37."""
    healthy = RecordingWorker("edge-2", SECRET)
    with Door(hangs=True) as door, served(healthy) as url:
        worker.register(hostUrl=door.url)
        other.register(hostUrl=url)
        rounds = [
            StopRequest(agent_id="edge-1", host_url=door.url, jobs=(JOB,) * 20),
            StopRequest(agent_id="edge-2", host_url=url, jobs=(JOB,)),
        ]
        began = time.monotonic()
        _run(send_to_workers(rounds, SECRET))
        took = time.monotonic() - began

    assert healthy.told == [("cancel", JOB.job_id)]
    assert WITHIN_S <= took < 2 * WITHIN_S
    assert "edge-1 did not answer within 2 s" in log()


def test_nobody_there_is_no_error(worker, log):
    with Door() as door:
        url = door.url
    worker.register(hostUrl=url)
    run = begun(worker, "a")
    cancel(run)

    send_stop_requests(run.id)

    assert run.status == "Canceling"
    assert "could not be asked to cancel" in log()


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "::ffff:169.254.1.1", "0.0.0.0"])
def test_a_name_that_leads_to_link_local_is_not_called(address, log):
    """Invariant 23, and 33: also where it did not when the worker registered."""
    with Door() as door:
        url = door.url.replace("127.0.0.1", "worker.test")
        its = StopRequest(agent_id="edge-1", host_url=url, jobs=(JOB,))
        resolver = lambda _name, _port: (ipaddress.ip_address(address),)  # noqa: E731
        _run(send_to_workers([its], SECRET, resolver=resolver))

    assert door.credentials == []
    assert "may not go" in log()


@pytest.mark.parametrize("url", ["http://user@127.0.0.1", "http://169.254.169.254", "ftp://x", "x"])
def test_an_address_that_registering_would_refuse_is_not_called(url, log):
    _run(send_to_workers([StopRequest(agent_id="edge-1", host_url=url, jobs=(JOB,))], SECRET))

    assert "edge-1 cannot be called" in log()


def _run(calls: Any) -> None:
    asyncio.run(calls)
