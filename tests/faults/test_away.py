"""A supervisor stands still in the middle of `shop`, for longer than its leases last.

Leases are short, so that seconds are long. `python -m tests.faults.away` does the same with real
leases and minutes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.away import RETRIED, Case, installation, stand_still
from tests.faults.engine_watch import EngineWatch
from tests.faults.rounds import SEED
from tests.support.parts import need

LEASES = {"LEASE": "2s", "LEASE_GRACE": "1s"}  # 3 s are away
AWAY_S = 6.0
pytestmark = [pytest.mark.docker, pytest.mark.postgres, pytest.mark.redis]


@pytest.mark.parametrize("who", ["up", "runner"])
@pytest.mark.parametrize(("killed", "suite"), [(False, "shop"), (True, "shop"), (True, RETRIED)])
def test_shop_survives_an_absence(
    tmp_path: Path, watch: EngineWatch, postgres: str, who: str, killed: bool, suite: str
):
    """Invariants 6, 9, 11, 39: the same containers go on; of what was killed, the run tells."""
    need("TEST_REDIS_ADDR", "Redis") if who == "runner" else None
    seed = f"{SEED} {who} {killed}"
    case = Case(who=who, away_s=AWAY_S, killed=killed, runs=1, seed=seed, suite=suite)
    with installation(who, tmp_path / "site", **LEASES) as (site, process):
        outcome = stand_still(case, site, process, watch)
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert outcome.ended == ["Healthy"] or killed
