"""kill -9 in a burst of webhooks, on real processes, PostgreSQL, Redis and Git over HTTP.

A small draw; `python -m tests.faults.sync_burst` sends 1,000 and kills the Celery worker too, whose
unfinished task is given to another only after its beat stood still for 25 s.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.burst_pushes import pushes
from tests.faults.burst_stack import BurstStack, burst_stack
from tests.faults.sync_burst import Case, Moment, burst
from tests.support.parts import need

COUNT = int(os.environ.get("PARTITA_BURST_PUSHES", "100"))
WITHIN_S = 120  # on a busy machine; the long run holds it to 60
MOMENT = Moment(after_s=0.4, away_s=0.2)
pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.slow]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BurstStack]:
    with burst_stack(
        tmp_path_factory.mktemp("burst"),
        redis_address=need("TEST_REDIS_ADDR", "Redis"),
        postgres=need("TEST_POSTGRES_DSN", "PostgreSQL"),
        GATEWAY_BREAKER_OPEN="1s",
    ) as made:
        yield made


@pytest.mark.parametrize(
    ("victim", "gateway"),
    [("orchestrator", "gateway"), ("orchestrator", "plain"), ("gateway", "gateway")],
    ids=["orchestrator-inbox", "orchestrator", "gateway-inbox"],
)
def test_every_202_is_applied_once_whoever_is_killed(stack: BurstStack, victim: str, gateway: str):
    """Sync invariants 1, 2, 3."""
    name = f"{victim}-of-{gateway}"
    case = Case(name=name, victims=(victim,), gateway=gateway, within_s=WITHIN_S)
    folder: Path = stack.folder
    sent = pushes(folder, name=name, total=COUNT, repositories=4)

    outcome = burst(stack, case, sent, MOMENT)

    assert outcome.wrong == []
    assert outcome.doubles == 0
    assert outcome.accepted + outcome.redelivered == outcome.applied == COUNT
    if (victim, gateway) == ("orchestrator", "gateway"):
        assert outcome.accepted == COUNT, outcome.refused
