"""A supervisor stands still in the middle of `shop`, for longer than its leases last.

Leases are short, so that seconds are long. `python -m tests.faults.away` does the same with real
leases and minutes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.away import RETRIED, Case, installation, stand_still
from tests.faults.checks import Site
from tests.faults.engine_watch import EngineWatch
from tests.faults.rounds import SEED
from tests.support.parts import need
from tests.support.processes import Process

LEASES = {"LEASE": "2s", "LEASE_GRACE": "1s"}  # 3 s are away
AWAY_S = 6.0
pytestmark = [pytest.mark.docker, pytest.mark.postgres, pytest.mark.redis]


@pytest.fixture(scope="module", params=["up", "runner"])
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: str
) -> Iterator[tuple[str, Site, Process]]:
    """Its name, the installation, and the process that will stand still."""
    who = str(request.param)
    need("TEST_REDIS_ADDR", "Redis") if who == "runner" else None
    with installation(who, tmp_path_factory.mktemp("away") / who, **LEASES) as (site, process):
        yield who, site, process


@pytest.mark.parametrize(("killed", "suite"), [(False, "shop"), (True, "shop"), (True, RETRIED)])
def test_shop_survives_an_absence(
    watch: EngineWatch, installed: tuple[str, Site, Process], killed: bool, suite: str
):
    """Invariants 6, 9, 11, 39: the same containers go on; of what was killed, the run tells."""
    who, site, process = installed
    seed = f"{SEED} {who} {killed}"
    case = Case(who=who, away_s=AWAY_S, killed=killed, runs=1, seed=seed, suite=suite)
    outcome = stand_still(case, site, process, watch)
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert outcome.ended == ["Healthy"] or killed
