"""kill -9 at random moments of `shop`: the run ends right, once, with every line.

The seed is printed; PARTITA_FAULT_SEED repeats a run. `make faults` draws more moments with real
leases.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.faults.engine_watch import EngineWatch
from tests.faults.rounds import crash_during_shop, moments
from tests.support.cluster import Cluster

COUNT = int(os.environ.get("PARTITA_FAULT_MOMENTS", "2"))
# The grace is longer than any of them needs to come back, on a slow machine too: no lease is lost.
LEASES = {"LEASE": "3s", "LEASE_GRACE": "20s"}
PARTS = ("web", "celery", "runner", "worker")
pytestmark = [pytest.mark.docker, pytest.mark.postgres, pytest.mark.redis]


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, watch: EngineWatch, postgres: str
) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("crashes") / "cluster"
    with Cluster(folder, environment=LEASES, postgres=postgres, parts=PARTS) as cluster:
        yield cluster


@pytest.mark.parametrize("victim", ["web", "runner", "celery", "worker"])
def test_shop_survives_kill_9(cluster: Cluster, watch: EngineWatch, victim: str):
    """Invariants 3, 4, 6, 11, 13, 14, 39."""
    crash_during_shop(cluster, watch, victim, moments(victim, COUNT))
