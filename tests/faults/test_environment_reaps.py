"""kill -9 in the middle of a reap: the runner that comes back goes on, and nothing foreign goes.

The seed is printed; PARTITA_FAULT_SEED repeats a run, PARTITA_FAULT_MOMENTS draws more moments.
"""

from __future__ import annotations

import os
import random
import secrets
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial

import httpx
import pytest

from tests.faults.rounds import SEED
from tests.support.cluster import Cluster
from tests.support.labeled_resources import LabeledResources, labels_of
from tests.support.parts import need
from tests.support.processes import ROOT, until

COUNT = int(os.environ.get("PARTITA_FAULT_MOMENTS", "2"))
CONTAINERS = 8
PRINT_ID = "from apps.operations.api import installation_id; print(installation_id())"
pytestmark = [pytest.mark.docker, pytest.mark.postgres, pytest.mark.redis]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, postgres: str) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("reaps") / "cluster"
    with Cluster(folder, postgres=postgres) as cluster:
        yield cluster


@pytest.fixture
def resources() -> Iterator[LabeledResources]:
    made = LabeledResources(
        need("TEST_DOCKER_HOST", "a Docker engine"), f"reap-{secrets.token_hex(4)}"
    )
    yield made
    made.remove()


def installation_of(cluster: Cluster) -> str:
    command = [sys.executable, "manage.py", "shell", "-v", "0", "-c", PRINT_ID]
    done = subprocess.run(
        command, env=cluster.environment, cwd=ROOT, check=True, capture_output=True, text=True
    )
    return done.stdout.split()[-1]


@pytest.mark.parametrize("victim", ["runner", "web"])
def test_a_reap_survives_kill_9(cluster: Cluster, resources: LabeledResources, victim: str):
    """Invariant 15."""
    draw = random.Random(f"{SEED} {victim}")
    installation = installation_of(cluster)
    for _ in range(COUNT):
        run_id, after_s = f"run-{secrets.token_hex(6)}", draw.uniform(0.1, 4)
        print(f"kill -9 {victim} after {after_s:.2f} s, PARTITA_FAULT_SEED={SEED}", flush=True)
        names = fill(resources, installation, run_id)

        with ThreadPoolExecutor(1) as pool:
            reaping = pool.submit(reap, cluster, run_id)
            wait([reaping], timeout=after_s)
            cluster.processes[victim].crash(away_s=draw.uniform(0, 2))
            cluster.wait_ready()
            begun = reaping.result(180)
        until(
            partial(is_gone, cluster, resources, names["ours"], run_id),
            within_s=120,
            what=f"everything of {run_id} is gone; its reap answered {begun}",
        )

        assert names["foreign"] <= resources.names()


def is_gone(cluster: Cluster, resources: LabeledResources, ours: set[str], run_id: str) -> bool:
    """Look, and ask again where the kill came before the reap was stored: 409 while it goes on."""
    if not ours & resources.names():
        return True
    assert reap(cluster, run_id) in (200, 404, 409, 503)
    return False


def fill(resources: LabeledResources, installation: str, run_id: str) -> dict[str, set[str]]:
    ours, foreign = labels_of(installation, run_id), labels_of("another", run_id)
    kinds = [*["container"] * CONTAINERS, "network", "volume"]
    return {
        name: {
            resources.create(kind, f"{name}-{run_id}-{number}", labels)
            for number, kind in enumerate(kinds if labels is ours else kinds[-3:])
        }
        for name, labels in (("ours", ours), ("foreign", foreign))
    }


def reap(cluster: Cluster, run_id: str) -> int:
    """The status of the reap; 0 if its server was killed."""
    try:
        answer = cluster.client.post(f"/sandboxes/{run_id}/reap", json={}, timeout=150)
    except httpx.TransportError:
        return 0
    return answer.status_code
