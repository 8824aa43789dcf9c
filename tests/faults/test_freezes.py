"""A supervisor that stands still until its lease is over, and then goes on."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.faults.checks import check_run
from tests.faults.engine_watch import EngineWatch
from tests.faults.late_worker import LateWorker
from tests.support.cluster import EXAMPLES, Cluster
from tests.support.processes import until

LEASE_S = 3.0
LEASES = {
    "LEASE": f"{LEASE_S:g}s",
    "LEASE_GRACE": f"{LEASE_S:g}s",
    "LEASE_OWNER_PATIENCE": f"{LEASE_S:g}s",  # nobody is waited for, though nobody could go on
}
PARTS = ("web", "celery", "runner", "worker")
PAUSED = """\
name: Paused
description: A migration that takes its time
extendsId: cash
services:
  migrate:
    env:
      PACE: "0.8"
"""
OFFLINE_AFTER_S = 30.0  # without heartbeat or lease call
LOST_WITHIN_S = 180.0  # twice the lease and a look; a busy machine takes longer
pytestmark = [pytest.mark.docker, pytest.mark.postgres, pytest.mark.redis]


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, watch: EngineWatch, postgres: str
) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("freezes")
    suites = [
        paused_shop(folder / "shop-paused"),
        not_idempotent(paused_shop(folder / "shop-once")),
    ]
    with Cluster(
        folder / "cluster", parts=PARTS, environment=LEASES, postgres=postgres, suites=suites
    ) as cluster:
        yield cluster


def paused_shop(suite: Path) -> Path:
    """`shop` with time to freeze its supervisor while it migrates."""
    shutil.copytree(EXAMPLES / "shop", suite)
    (suite / "profiles" / "paused.yaml").write_text(PAUSED)
    return suite


def not_idempotent(suite: Path) -> Path:
    source = suite / "suite.star"
    source.write_text(re.sub(r",?\s*idempotent = True", "", source.read_text()))
    return suite


def begin_migrating(cluster: Cluster, *suites: str, backend: str = "local") -> list[str]:
    """A run of each suite; their migrations print right now."""
    runs = [cluster.launch(suite, profile="paused.yaml", backend=backend) for suite in suites]
    for run_id in runs:
        until(
            partial(printed, cluster, run_id, "1/8 migration"), within_s=60, what="migrate prints",
            each_s=0.3,
        )  # fmt: skip
    return runs


def printed(cluster: Cluster, run_id: str, beginning: str) -> bool:
    return any(record["line"]["text"].startswith(beginning) for record in cluster.lines(run_id))


def lost(cluster: Cluster, run_id: str, *steps: str) -> Callable[[], bool]:
    """Leases end one by one: a worker renews each with a request of its own."""

    def are_lost() -> bool:
        of_run = [cluster.step(run_id, step) for step in steps]
        return all(step["attempt"] > 1 or step["status"] == "failed" for step in of_run)

    return are_lost


def test_late_reports_are_refused(cluster: Cluster):
    """Invariants 7 and 11: 409 `stale_attempt` for each, and nothing of them is stored."""
    cluster.processes["worker"].kill()  # or it would take the step
    with LateWorker(cluster.url, "late") as worker:
        run_id = cluster.launch("shop", profile="cash.yaml", backend="edge")
        worker.claim()
        assert worker.report() == {"state": 200, "logs": 200}
        until(
            lambda: cluster.step(run_id, "store")["attempt"] == 2,
            within_s=LOST_WITHIN_S,
            what="its lease is lost",
            each_s=0.3,
        )
        assert cluster.step(run_id, "store")["status"] == "queued"
        before = cluster.detail(run_id)["events"], cluster.lines(run_id)
        assert worker.late_reports() == dict.fromkeys(
            ("lease", "state", "logs", "complete", "content", "artifacts"), (409, "stale_attempt")
        )
        assert (cluster.detail(run_id)["events"], cluster.lines(run_id)) == before
    cluster.client.post(f"/executions/{run_id}/cancel", json={})
    assert cluster.wait_over(run_id)["status"] == "Canceled"
    cluster.processes["worker"].start()


@pytest.mark.parametrize(("frozen", "backend"), [("runner", "local"), ("worker", "edge")])
def test_what_a_frozen_supervisor_held_is_lost(
    cluster: Cluster, watch: EngineWatch, frozen: str, backend: str
):
    """Invariants 5, 6, 7, 9, 11: it kills that at its first wake-up.

    Services and idempotent steps begin again, others fail with agent_lost.
    """
    again, once = begin_migrating(cluster, "shop-paused", "shop-once", backend=backend)
    cluster.processes[frozen].freeze()
    try:
        for run_id, steps in ((again, ("store", "migrate")), (once, ("migrate",))):
            until(
                lost(cluster, run_id, *steps),
                within_s=LOST_WITHIN_S,
                what=partial(cluster.account_of, run_id),
                each_s=0.3,
            )
    finally:
        cluster.processes[frozen].go_on()
    check_run(cluster, watch, again)
    starts = watch.starts(again)
    assert (starts["store"], starts["migrate"], starts["seed"]) == (2, 2, 1)
    check_run(cluster, watch, once, status="Failed")
    migrate = cluster.step(once, "migrate")
    assert (migrate["status"], migrate["reason"], migrate["attempt"]) == ("failed", "agent_lost", 1)
    assert watch.starts(once)["migrate"] == 1


def test_another_worker_takes_over_from_a_frozen_one(cluster: Cluster, watch: EngineWatch):
    """Invariants 5 and 39: the run is bound to its worker only while that one is online."""
    (run_id,) = begin_migrating(cluster, "shop-paused", backend="edge")
    second = cluster.add("second", "worker")
    cluster.processes["worker"].freeze()
    try:
        until(
            lambda: cluster.step(run_id, "migrate").get("agentId") == "second",
            within_s=OFFLINE_AFTER_S + LOST_WITHIN_S,
            what="the second worker has it",
            each_s=0.3,
        )
    finally:
        cluster.processes["worker"].go_on()
    detail = check_run(cluster, watch, run_id)
    second.end()
    taken = {step["id"]: step["attempt"] for step in detail["steps"] if "agentId" in step}
    assert taken["seed"] == 1
    assert (taken["store"], taken["migrate"]) in ((2, 2), (3, 2), (2, 3)), (
        "a claim that the frozen one waited for is one attempt more, of what was lost first"
    )


def test_a_short_freeze_loses_nothing(cluster: Cluster, watch: EngineWatch):
    """A lease may be renewed until its grace is over."""
    (run_id,) = begin_migrating(cluster, "shop-paused")
    cluster.processes["runner"].freeze()
    time.sleep(LEASE_S)  # the freeze itself
    cluster.processes["runner"].go_on()
    check_run(cluster, watch, run_id)
    assert watch.starts(run_id)["migrate"] == 1


def test_who_freezes_in_a_transaction_holds_up_nobody(cluster: Cluster, watch: EngineWatch):
    """Invariants 5 and 37: its locks end with its session."""
    (run_id,) = begin_migrating(cluster, "shop-paused")
    frozen = cluster.add("locker", "shell", RUN=run_id)
    until(lambda: "locked" in frozen.text(), within_s=30, what="the run is locked")
    frozen.freeze()
    check_run(cluster, watch, run_id)
