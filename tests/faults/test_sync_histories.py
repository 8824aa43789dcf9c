"""A few random histories of a sync; by hand there are thousands.

Always the same ones, unless PARTITA_FAULT_SEED names another seed. PARTITA_HISTORIES draws more of
those on the model, PARTITA_REAL_HISTORIES more of those on real Git, Redis and processes.
"""

from __future__ import annotations

import os

import pytest

from tests.faults import sync_machine, sync_real
from tests.support.parts import need

SEED = int(os.environ.get("PARTITA_FAULT_SEED", "1"))
HISTORIES = int(os.environ.get("PARTITA_HISTORIES", "20"))
REAL_HISTORIES = int(os.environ.get("PARTITA_REAL_HISTORIES", "2"))


def test_random_histories_end_at_the_heads_of_their_refs():
    """Sync invariants 1, 4, 7, 8, 11, 12, 13, 15, 16, 17, 18, 19, 22, 35, 36, 38, 39, 41."""
    print(f"PARTITA_FAULT_SEED={SEED}")
    sync_machine.run(HISTORIES, SEED)


@pytest.mark.django_db(transaction=True)
def test_random_histories_on_the_store_end_at_the_heads_of_their_refs():
    """Sync invariants 1, 4, 7, 11, 13, 16, 17, 35, 36."""
    print(f"PARTITA_FAULT_SEED={SEED}")
    sync_machine.run(max(1, HISTORIES // 10), SEED, sync_machine.StoredHistories)


@pytest.mark.redis
@pytest.mark.timeout(900)
def test_random_histories_of_real_processes_end_at_the_heads_of_their_refs():
    """Sync invariants 1, 3, 4, 7, 11, 12, 13, 17, 19, 35, 38, 41."""
    address = need("TEST_REDIS_ADDR", "Redis")
    print(f"PARTITA_FAULT_SEED={SEED}")
    assert sync_real.run(REAL_HISTORIES, SEED, address, workers=1).wrong == []
