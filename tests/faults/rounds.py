"""A round: one run of `shop`, and what is killed meanwhile, at moments that a seed draws."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.faults.checks import check_run
from tests.faults.engine_watch import EngineWatch
from tests.support.cluster import Cluster

SEED: Final = int(os.environ.get("PARTITA_FAULT_SEED", random.randrange(10**6)))
SHOP_S: Final = 11.0  # about how long `shop` takes undisturbed
BACKENDS: Final = {"web": ("local", "edge"), "worker": ("edge",)}  # else local alone
CONTAINERS: Final = {"warm-cache": 2, "rollback": 0, "summary": 0}  # others: one


@dataclass(frozen=True, slots=True)
class Moment:
    """Seconds after the launch, and until the victim is back."""

    after_s: float
    away_s: float

    def __str__(self) -> str:
        return f"{self.after_s:.2f} s after the launch, back {self.away_s:.2f} s later"


def moments(victim: str, count: int, *, seed: int = SEED) -> list[Moment]:
    """The same for the same seed, victim and count."""
    draw = random.Random(f"{seed} {victim}")
    return [Moment(draw.uniform(0, SHOP_S), draw.uniform(0.1, 2.0)) for _ in range(count)]


def crash_during_shop(
    cluster: Cluster, watch: EngineWatch, victim: str, at: Sequence[Moment]
) -> float:
    """kill -9 at each moment of a run, which then ends Healthy: no attempt was lost by it.

    Returns the seconds it took, until nothing was left; AssertionError.
    """
    order = sorted(at, key=lambda moment: moment.after_s)
    print(f"kill -9 {victim}: {'; '.join(map(str, order))}", flush=True)
    begun = time.monotonic()
    runs = [
        cluster.launch("shop", profile="cash.yaml", backend=backend)
        for backend in BACKENDS.get(victim, ("local",))
    ]
    for moment in order:
        time.sleep(max(0.0, begun + moment.after_s - time.monotonic()))
        cluster.processes[victim].crash(away_s=moment.away_s)
    for run_id in runs:
        detail = check_run(cluster, watch, run_id)
        check_containers(watch.starts(run_id), [step["id"] for step in detail["steps"]])
    return time.monotonic() - begun


def check_containers(starts: Mapping[str, int], steps: Sequence[str]) -> None:
    """What ran when its supervisor died was gone on with: nothing ran more often than it must."""
    expected = {step: CONTAINERS.get(step, 1) for step in steps}
    assert {step: starts.get(step, 0) for step in steps} == expected
