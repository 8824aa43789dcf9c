"""A server is restarted, then something changes; `tests.faults.restarts` in short.

Nothing is timed here: without its mend, a change is never in force, and a mock takes 10 s a call.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.restarts import (
    SERVERS,
    Site,
    call_mocks,
    call_unknown,
    installed,
    restart_and_change,
    store_away,
)
from tests.faults.rounds import SEED
from tests.support.packages import program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not (program("initdb") and program("redis-server")), reason="needs PostgreSQL and Redis"
    ),
]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Not below pytest's folder: another pytest closes that to the user who owns PostgreSQL."""
    with (
        tempfile.TemporaryDirectory(prefix="partita-restarts-") as folder,
        installed(Path(folder)) as made,
    ):
        yield made


@pytest.mark.parametrize("server", SERVERS)
def test_every_change_after_a_restart_is_in_force(site: Site, server: str):
    """Invariants 34 and 37."""
    first = 1 + SERVERS.index(server)
    outcomes = restart_and_change(site, server, 1, random.Random(SEED), first=first)

    assert [wrong for outcome in outcomes for wrong in outcome.wrong] == []


@pytest.mark.parametrize("how", ["stopped", "frozen"])
def test_mocks_in_use_answer_and_unknown_ones_are_refused_while_the_store_is_away(
    site: Site, how: str
):
    """Invariant 34. Each call of a mock in use would take longer than its client waits."""
    call_mocks(site, 1)
    with store_away(site, how):
        call_mocks(site, 6)
        call_unknown(site)
    site.wait_store()
