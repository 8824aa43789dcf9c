"""Canceling, deadlines, deletion and retention."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from apps.agents import models as agents
from apps.executions import api
from apps.executions.domain.events import events_topic, logs_topic
from apps.executions.domain.runs import ExecutionActive, ExecutionFinished, ExecutionNotFound
from apps.executions.models import Artifact, Blob, Execution, Snapshot, Step
from apps.executions.services import launch, storage
from apps.executions.services.cancellations import cancel
from apps.executions.services.storage import packed_suite, remove_old_runs
from apps.executions.services.sweep import sweep
from apps.streams.api import last_ids
from kernel import clock
from kernel.agent_protocol import job_of
from readers.archive import pack
from tests.apps.executions.runs import (
    Run,
    Worker,
    booted_run,
    deadline_is_over,
    node,
    profile,
    queued_run,
    suite,
)
from tests.apps.executions.test_fencing import upload
from tests.support.people import somebody
from tests.support.threads import at_once


def test_a_queued_run_is_canceled_at_once():
    run = queued_run(node("a"))
    answer = cancel(run.principal, run.id, "changed my mind")
    assert answer["status"] == "Canceled"
    assert run.statuses == {"a": "canceled"}
    last = run.events()[-1]
    assert (last["id"], last["text"]) == (
        "execution-canceled",
        "canceled by Ada Lovelace (ada@example.org) before it started: changed my mind",
    )


def test_a_booting_run_is_canceled_when_everything_of_it_is_stopped(worker: Worker):
    run = booted_run(node("db", kind="service"), node("a", after=["db"]), node("b", after=["a"]))
    worker.claim()
    worker.report("db", "healthy")
    worker.claim()

    assert cancel(run.principal, run.id)["status"] == "Canceling"
    assert cancel(run.principal, run.id)["status"] == "Canceling", "repeating changes nothing"
    assert [lease.cancel_reason for lease in worker.renew("db", "a")] == ["canceled"] * 2
    worker.end("a", "canceled")
    assert run.status == "Canceling"
    worker.end("db", "canceled")
    assert run.status == "Canceled"
    assert run.statuses == {"db": "canceled", "a": "canceled", "b": "canceled"}


def test_what_fails_while_canceling_does_not_make_the_run_failed(worker: Worker):
    """Invariant 4: never failed or healthy from canceling."""
    run = booted_run(node("a", retries=2), node("b"))
    worker.claim()
    cancel(run.principal, run.id)
    worker.fail("a")
    worker.end("b")
    assert run.status == "Canceled"
    assert run.statuses == {"a": "failed", "b": "healthy"}


def test_a_cancel_that_nobody_answers_is_forced(worker: Worker):
    """Invariant 5."""
    run = booted_run(node("a"))
    worker.claim()
    cancel(run.principal, run.id)
    deadline_is_over(run)
    sweep()
    assert (run.status, run.statuses) == ("Canceled", {"a": "canceled"})


def test_runs_that_were_in_progress_in_a_restored_store_do_not_go_on(worker: Worker):
    ended = booted_run(node("a"))
    worker.claim()
    worker.end("a")
    running = booted_run(node("a", retries=3), node("b"))
    worker.claim()
    waiting = queued_run(node("a"))

    assert api.cancel_unfinished_runs("the store was restored from a backup") == 2
    assert api.cancel_unfinished_runs("again") == 0

    assert (ended.status, waiting.status, running.status) == ("Healthy", "Canceled", "Canceling")
    assert "the store was restored from a backup" in waiting.events()[-1]["text"]
    deadline_is_over(running)  # the supervisor of the steps is elsewhere, or long gone
    sweep()
    assert (running.status, running.statuses) == ("Canceled", dict.fromkeys("ab", "canceled"))
    assert worker.claim() == []


def test_a_finished_run_cannot_be_canceled_and_stays_as_it_is(worker: Worker):
    """Invariant 4: a terminal status that changes, an event after the end."""
    run = booted_run(node("a"))
    worker.claim()
    worker.end("a")
    events = run.event_ids()

    with pytest.raises(ExecutionFinished):
        cancel(run.principal, run.id)
    deadline_is_over(run)
    sweep()
    worker.end("a", "failed")
    assert (run.status, run.event_ids()) == ("Healthy", events)


def test_runs_of_others_are_not_there(worker: Worker):
    """Invariant 16."""
    run = queued_run(node("a"))
    with pytest.raises(ExecutionNotFound):
        cancel(somebody(), run.id)
    with pytest.raises(ExecutionNotFound):
        storage.delete(somebody(), run.id)


def test_a_run_that_takes_too_long_ends_with_its_reason(worker: Worker, settings):
    """Invariant 5: every run has a deadline that ends in a reason."""
    settings.EXECUTION_MAX_DURATION_S = 25
    run = booted_run(node("a"), node("b", after=["a"]))
    worker.claim()
    deadline_is_over(run)
    sweep()

    assert (run.row.failing, run.row.reason, run.status) == (True, "run_timeout", "Booting")
    assert run.row.reason_detail == "the run took longer than 25 s"
    assert run.reasons == {"b": "run_failed"}
    assert worker.renew("a")[0].cancel_reason == "timeout"
    worker.end("a", "canceled")
    assert (run.status, run.statuses) == ("Failed", {"a": "canceled", "b": "skipped"})


def test_a_run_that_waits_too_long_in_the_queue_fails(settings):
    """Invariant 5."""
    settings.EXECUTION_MAX_ACTIVE = 1
    booted_run(node("a"))
    run = queued_run(node("a"))
    deadline_is_over(run)
    sweep()
    assert (run.status, run.row.reason) == ("Failed", "run_timeout")


def test_an_attempt_that_its_supervisor_never_ends_is_ended(worker: Worker):
    """Invariant 5: every step has a deadline."""
    run = booted_run(node("a"), node("db", kind="service"))
    worker.claim()
    Step.objects.update(deadline=clock.now())
    sweep()
    assert run.reasons == {"a": "timeout", "db": "not_ready"}


def test_steps_that_no_supervisor_takes_fail_after_a_minute():
    """Invariant 5: every queue wait has a deadline."""
    run = booted_run(node("a"))
    sweep()
    assert run.statuses == {"a": "queued"}

    Step.objects.update(queued_at=clock.now() - timedelta(seconds=61))
    sweep()
    assert (run.status, run.reasons) == ("Failed", {"a": "agent_unavailable"})


def test_steps_wait_for_a_supervisor_that_is_busy(worker: Worker):
    run = booted_run(node("a"))
    Step.objects.update(queued_at=clock.now() - timedelta(hours=1))
    sweep()
    assert run.statuses == {"a": "queued"}


def test_a_run_goes_on_elsewhere_when_its_supervisor_is_offline(worker: Worker):
    run = booted_run(node("a"), node("b", after=["a"]))
    worker.claim()
    worker.end("a")
    agents.Agent.objects.update(last_heartbeat_at=clock.now() - timedelta(seconds=31))
    other = Worker("runner-2")
    assert other.claim() == []
    sweep()
    assert other.claim() == ["b"]
    assert run.row.bound_agent_id == "runner-2"


def test_only_finished_runs_are_deleted_and_then_gone_for_every_reader(worker: Worker):
    run = booted_run(node("a"))
    worker.claim()
    with pytest.raises(ExecutionActive):
        storage.delete(run.principal, run.id)
    api.store_artifact(worker.supervisor, job_of(worker.jobs["a"]), upload(b"kept"))
    worker.end("a")
    run_id = run.id

    storage.delete(run.principal, run_id)
    with pytest.raises(ExecutionNotFound):
        api.get_execution(run.principal, run_id)
    sweep()
    tables = (Execution, Step, Artifact, Blob, Snapshot)
    assert [model.objects.count() for model in tables] == [0] * 5
    assert last_ids([events_topic(run_id), logs_topic(run_id)]) == {}


FILES = {"suite.star": b"task.run()"}
ARCHIVE = pack(FILES)


def test_old_runs_are_removed_and_what_others_share_is_kept(worker: Worker):
    """Invariant 38: memory and store that grow with the number of finished runs."""
    old, young = (ended_run(worker, node("a"), artifact=b"same", files=FILES) for _ in range(2))
    profiled = ended_run(worker, node("a"), files=FILES, with_profile=profile(label="other"))
    ended_run(worker, node("a"), files={"suite.star": b"another suite"}, days_ago=31)
    is_over(old)

    assert remove_old_runs() == 2
    assert {row.pk for row in Execution.objects.all()} == {young.pk, profiled.pk}
    assert (Snapshot.objects.count(), blobs()) == (2, {b"same", ARCHIVE})

    is_over(young)
    assert remove_old_runs() == 1
    assert (Snapshot.objects.count(), blobs()) == (1, {ARCHIVE})

    is_over(profiled)
    assert remove_old_runs() == 1
    assert (Snapshot.objects.count(), blobs()) == (0, set())


def test_an_artifact_with_the_bytes_of_an_archive_leaves_it_to_the_runs_of_the_suite(
    worker: Worker,
):
    young = ended_run(worker, node("a"), files=FILES)
    ended_run(worker, node("a"), artifact=ARCHIVE, days_ago=31)

    assert remove_old_runs() == 1
    assert blobs() == {ARCHIVE}

    ended_run(worker, node("a"), artifact=ARCHIVE)
    is_over(young)
    assert remove_old_runs() == 1
    assert blobs() == {ARCHIVE}, "the artifact still has them"


def test_a_snapshot_of_an_older_process_keeps_its_archive(worker: Worker):
    """Such a process does not name the archive in a column of its own."""
    ended_run(worker, node("a"), files=FILES, with_profile=profile(label="theirs"))
    Snapshot.objects.update(archive_sha256=None)
    ended_run(worker, node("a"), files=FILES, days_ago=31)

    assert remove_old_runs() == 1
    assert (Snapshot.objects.count(), blobs()) == (1, {ARCHIVE})


@pytest.mark.store
@pytest.mark.parametrize("after", ["store_snapshot", "keep_snapshot"])
@pytest.mark.parametrize("label", ["", "other"], ids=["same snapshot", "same archive"])
def test_a_launch_beside_the_removal_of_the_last_run_of_its_suite_keeps_its_files(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, label: str, after: str
):
    """The removal begins `after` a step of the launch, before the launch is committed."""
    ended_run(worker, node("a"), files=FILES, days_ago=31)
    reached, removed = threading.Event(), threading.Event()
    step: Callable[..., Any] = getattr(launch, after)

    def step_then_wait(*facts: Any) -> Any:
        found = step(*facts)
        reached.set()
        removed.wait(0.5)  # the removal may have to wait for the launch
        return found

    monkeypatch.setattr(launch, after, step_then_wait)
    more = {"with_profile": profile(label=label)} if label else {}
    runs: list[Run] = []

    def remove() -> None:
        assert reached.wait(30)
        remove_old_runs()
        removed.set()

    at_once([lambda: runs.append(queued_run(node("a"), files=FILES, **more)), remove])

    assert [row.pk for row in Execution.objects.all()] == [runs[0].pk]
    assert (Snapshot.objects.count(), blobs()) == (1, {ARCHIVE})


def ended_run(
    worker: Worker, step: dict[str, Any], *, artifact: bytes = b"", days_ago: int = 0, **facts: Any
) -> Run:
    run = booted_run(step, **facts)
    worker.claim(1)
    if artifact:
        api.store_artifact(worker.supervisor, job_of(worker.jobs["a"]), upload(artifact))
    worker.end("a")
    if days_ago:
        is_over(run, days_ago)
    return run


def is_over(run: Run, days_ago: int = 31) -> None:
    finished = clock.now() - timedelta(days=days_ago)
    Execution.objects.filter(pk=run.pk).update(finished_at=finished)


def blobs() -> set[bytes]:
    return {bytes(data) for data in Blob.objects.values_list("data", flat=True)}


@pytest.mark.store
@pytest.mark.slow
@pytest.mark.skipif(connection.vendor == "mongodb", reason="older documents have no such member")
def test_snapshots_of_an_older_release_learn_their_archives_and_orphans_go():
    archive_sha256 = hashlib.sha256(ARCHIVE).hexdigest()
    try:
        before = migrated("0003_parent_span_default")
        for digest, suite_files in (("sha256:1", FILES), ("sha256:2", {})):
            packed = packed_suite(suite(node("a"), files=suite_files), profile())
            before.get_model("executions", "Snapshot").objects.create(
                digest=digest, document=packed.document, created_at=clock.now()
            )
        for sha256, data in ((archive_sha256, ARCHIVE), ("f" * 64, b"of a removed snapshot")):
            before.get_model("executions", "Blob").objects.create(
                sha256=sha256, size=len(data), data=data
            )
        migrated("0005_archives_of_snapshots")
        found = dict(Snapshot.objects.values_list("digest", "archive_sha256"))
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes("executions"))

    assert found == {"sha256:1": archive_sha256, "sha256:2": ""}
    assert blobs() == {ARCHIVE}


def migrated(name: str) -> Any:
    return MigrationExecutor(connection).migrate([("executions", name)]).apps


def test_resources_are_released_once_a_run_is_over(worker: Worker):
    run = booted_run(node("a"))
    worker.claim()
    assert api.releasable_runs([run.id, "run-ffffffffffff"]) == ["run-ffffffffffff"]
    worker.end("a")
    assert api.releasable_runs([run.id]) == [run.id]


def test_output_beyond_the_limit_is_dropped_and_counted(worker: Worker, settings):
    settings.EXECUTION_LOG_MAX_BYTES = 300
    run = booted_run(node("a"))
    worker.claim()
    worker.log("a", "x" * 400)
    worker.log("a", "dropped", "dropped", seq=1)
    worker.log("a", "dropped", seq=3)
    worker.end("a", final_seq=4)

    assert len(run.output("a")) == 1
    assert [line["text"] for line in run.lines("system")] == [
        "the log limit of 300 bytes is reached: further output is dropped",
        "3 lines of output were dropped",
    ]
