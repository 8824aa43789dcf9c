"""A round: one run of `shop`, and what is killed meanwhile, at moments that a seed draws."""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tests.faults.checks import Site, check_run
from tests.faults.engine_watch import EngineWatch

SEED: Final = int(os.environ.get("PARTITA_FAULT_SEED", random.randrange(10**6)))
A_ROUND: Final = 2  # moments in one run
SHOP_S: Final = 11.0  # about how long `shop` takes undisturbed
# the backends of a round's runs, by victim; else local alone
BACKENDS: Final[Mapping[str, Sequence[str]]] = {"web": ("local", "edge"), "worker": ("edge",)}
Json = dict[str, Any]
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


class CrashSite(Site, Protocol):
    """Runs are launched here, and its processes are killed."""

    def crash(self, name: str, *, away_s: float) -> None: ...


@dataclass
class Row:
    """The rounds of one victim; `held`: how many of their runs had a step at the victim."""

    victim: str
    moments: int
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    held: int = 0

    def cells(self) -> list[object]:
        runs = len(self.seconds) + len(self.wrong)
        middle = round(statistics.median(self.seconds), 1) if self.seconds else ""
        longest = round(max(self.seconds), 1) if self.seconds else ""
        return [
            self.victim,
            self.moments,
            runs,
            len(self.seconds),
            len(self.wrong),
            middle,
            longest,
        ]


def play_rounds(
    site: CrashSite,
    watch: EngineWatch,
    victim: str,
    drawn: Sequence[Moment],
    *,
    backends: Sequence[str] = (),
    note: Callable[[Row, Sequence[Json]], None] = lambda _row, _details: None,
) -> Row:
    """Play a round for each A_ROUND of the moments. `note` sees the runs of those that were right.

    `backends`: of the runs of a round, by default those of BACKENDS.
    """
    row = Row(victim, len(drawn))
    for first in range(0, len(drawn), A_ROUND):
        moments_now = drawn[first : first + A_ROUND]
        begun = time.monotonic()
        try:
            details = crash_during_shop(site, watch, victim, moments_now, backends=backends)
        except AssertionError as error:
            print(f"WRONG: {error}", flush=True)
            row.wrong.append(f"{victim}, moments {first + 1} and on: {error}")
        else:
            row.seconds.append(time.monotonic() - begun)
            note(row, details)
    return row


def crash_during_shop(
    site: CrashSite,
    watch: EngineWatch,
    victim: str,
    at: Sequence[Moment],
    *,
    backends: Sequence[str] = (),
) -> list[Json]:
    """kill -9 at each moment of a run, which then ends Healthy: no attempt was lost by it.

    Returns the Details of the runs, once nothing is left of them; AssertionError.
    """
    order = sorted(at, key=lambda moment: moment.after_s)
    print(f"kill -9 {victim}: {'; '.join(map(str, order))}", flush=True)
    begun = time.monotonic()
    runs = [
        site.launch("shop", profile="cash.yaml", backend=backend)
        for backend in backends or BACKENDS.get(victim, ("local",))
    ]
    for moment in order:
        time.sleep(max(0.0, begun + moment.after_s - time.monotonic()))
        site.crash(victim, away_s=moment.away_s)
    details = []
    for run_id in runs:
        detail = check_run(site, watch, run_id)
        check_containers(watch.starts(run_id), [step["id"] for step in detail["steps"]])
        details.append(detail)
    return details


def check_containers(starts: Mapping[str, int], steps: Sequence[str]) -> None:
    """What ran when its supervisor died was gone on with: nothing ran more often than it must."""
    expected = {step: CONTAINERS.get(step, 1) for step in steps}
    assert {step: starts.get(step, 0) for step in steps} == expected
