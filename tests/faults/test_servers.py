"""Redis and PostgreSQL go away in the middle of `shop` and come back."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator

import pytest

from tests.faults.checks import check_run
from tests.faults.engine_watch import EngineWatch
from tests.faults.rounds import SEED, SHOP_S
from tests.support.cluster import Cluster

pytestmark = [pytest.mark.docker, pytest.mark.postgres, pytest.mark.redis]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, watch: EngineWatch) -> Iterator[Cluster]:
    """On a PostgreSQL of its own, whose commits wait for the disk."""
    with Cluster(tmp_path_factory.mktemp("servers") / "cluster") as cluster:
        yield cluster


def interrupted_shop(cluster: Cluster, server: str, *signals: signal.Signals) -> str:
    """A run during which the server is ended by each signal in turn, and is back a little later."""
    draw = random.Random(f"{SEED} {server}")
    cluster.wait_ready()
    run_id = cluster.launch("shop", profile="cash.yaml")
    for number in signals:
        after_s, away_s = draw.uniform(0.2, SHOP_S / 2), draw.uniform(0.5, 3.0)
        print(f"{server} gets {number.name} after {after_s:.2f} s, away {away_s:.2f} s", flush=True)
        time.sleep(after_s)
        cluster.processes[server].kill(number)
        time.sleep(away_s)
        cluster.processes[server].start()
    return run_id


def test_shop_survives_a_killed_redis(cluster: Cluster, watch: EngineWatch):
    """Invariant 34: what Redis tells is told again by looking."""
    run_id = interrupted_shop(cluster, "redis", signal.SIGKILL, signal.SIGKILL)
    check_run(cluster, watch, run_id)


def test_shop_survives_restarts_of_postgres(cluster: Cluster, watch: EngineWatch):
    """Invariants 11 and 39: after a fast shutdown, and after one with recovery from the log."""
    run_id = interrupted_shop(cluster, "postgres", signal.SIGINT, signal.SIGQUIT)
    check_run(cluster, watch, run_id)


def test_the_sweep_goes_on_after_the_restarts(cluster: Cluster):
    """Without a Celery worker a run begins only because the web process sweeps."""
    cluster.processes["celery"].end()
    run_id = cluster.launch("hello")
    assert cluster.wait_over(run_id, within_s=30)["status"] == "Healthy"
