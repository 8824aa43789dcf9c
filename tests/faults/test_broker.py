"""Celery's broker goes away under runs of the control plane, which loses nothing by it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import httpx
import pytest
import redis

from tests.support.cluster import Cluster
from tests.support.processes import until

AWAY_S = 15.0
WITHIN_S = 60.0
TOLD_WITHIN_S = 20.0
pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, postgres: str) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("broker") / "cluster"
    with Cluster(folder, environment={"LOCAL_RUNTIME": "process"}, postgres=postgres) as made:
        yield made


def readiness(cluster: Cluster) -> tuple[int, str, str]:
    """The status of `/readyz`, and what it says of the broker and of background loops."""
    answer = httpx.get(f"{cluster.url}/readyz", timeout=10)
    parts = {each["name"]: each["status"] for each in answer.json()["components"]}
    return answer.status_code, parts["broker"], parts["background"]


def begin(cluster: Cluster, fault: str) -> None:
    server = cluster.processes["redis"]
    if fault == "stop":
        server.kill()
    elif fault == "freeze":
        server.send(signal.SIGSTOP)
    else:
        with redis.Redis.from_url(f"redis://{cluster.environment['REDIS_ADDR']}") as client:
            client.flushall()


def end(cluster: Cluster, fault: str) -> None:
    if fault == "stop":
        cluster.processes["redis"].start()
    elif fault == "freeze":
        cluster.processes["redis"].go_on()


@pytest.mark.parametrize("fault", ["stop", "freeze", "flush"])
def test_runs_end_though_the_broker_went_away_and_readiness_tells_of_it(
    cluster: Cluster, fault: str
):
    """Invariant 34: what a broker forgot, or never took, is found in the store."""
    until(lambda: readiness(cluster) == (200, "ready", "ready"), within_s=WITHIN_S, what="ready")
    runs = [cluster.launch("hello")]

    begin(cluster, fault)
    begun = time.monotonic()
    runs += [cluster.launch("hello"), cluster.launch("hello")]
    if fault != "flush":
        degraded = (200, "degraded", "ready")
        until(lambda: readiness(cluster) == degraded, within_s=TOLD_WITHIN_S, what="it is told")
        time.sleep(max(0.0, AWAY_S - (time.monotonic() - begun)))
    end(cluster, fault)

    for run_id in runs:
        assert cluster.wait_over(run_id, within_s=WITHIN_S)["status"] == "Healthy"
    until(lambda: readiness(cluster) == (200, "ready", "ready"), within_s=WITHIN_S, what="back")
    assert cluster.wait_over(cluster.launch("hello"), within_s=WITHIN_S)["status"] == "Healthy"
