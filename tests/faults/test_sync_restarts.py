"""A part of the sync is restarted, then something changes: `sync_restarts` in short."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.faults.rounds import SEED
from tests.faults.sync_restarts import SyncSite, installed_sync, kill_orchestrator, restart_and_sync
from tests.support.packages import program
from tests.support.parts import need
from tests.support.processes import until

WHAT = ("store", "broker", "orchestrator")
pytestmark = [
    pytest.mark.redis,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not program("initdb"), reason="needs PostgreSQL"),
]


@pytest.fixture(scope="module")
def site() -> Iterator[SyncSite]:
    """Not below pytest's folder: another pytest closes that to the user who owns PostgreSQL."""
    need("TEST_REDIS_ADDR", "Redis")
    with (
        tempfile.TemporaryDirectory(prefix="partita-sync-restarts-") as folder,
        installed_sync(Path(folder), breaker_open="1h") as made,
    ):
        yield made


@pytest.mark.parametrize("what", WHAT)
def test_what_is_pushed_or_drifts_after_a_restart_is_synced(site: SyncSite, what: str):
    """Sync invariants 1 and 33."""
    first = 1 + WHAT.index(what)
    outcomes = restart_and_sync(site, what, 1, random.Random(SEED), first=first)

    assert [wrong for outcome in outcomes for wrong in outcome.wrong] == []


def test_a_killed_orchestrator_that_is_back_is_sent_to_before_the_breakers_pause_is_over(
    site: SyncSite,
):
    """Sync invariant 33. The pause is made so long that nothing but a ping can end it in time."""
    absence = kill_orchestrator(site, 100)

    assert httpx.codes.SERVICE_UNAVAILABLE in absence.during, "the breaker opened"
    pushed = site.push(101)
    until(pushed, within_s=60, what=site.stack.tails)
